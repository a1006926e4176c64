// The overview: the whole map at a small scale in a corner, with a rectangle around the visible part.

import { html } from "./api.js";

const CANVAS_SIZE = [190, 140]; // width and height in pixels, as in page.css

export class MapOverview {
  /** moveTo(x, y): moves the map so that this point of it, in units of the map, is in the middle of the view. */
  constructor(moveTo) {
    this.element = html("canvas", { id: "map-overview", "aria-hidden": "true" });
    const follow = (event) => {
      if (event.buttons && this.scene) moveTo(event.offsetX / this.scale + this.left, event.offsetY / this.scale + this.top);
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      follow(event);
    });
    this.element.addEventListener("pointermove", follow);
  }

  /**
   * Draw the boxes of a scene (see `flatten` of map_scene.js) on the canvas `picture`, which `drawView` copies to the page. Called once
   * after each change of the scene or the colors.
   */
  draw(scene, colors) {
    const { bounds, boxes } = scene;
    const scale = Math.min(CANVAS_SIZE[0] / bounds.width, CANVAS_SIZE[1] / bounds.height);
    const left = bounds.left - (CANVAS_SIZE[0] / scale - bounds.width) / 2;
    const top = bounds.top - (CANVAS_SIZE[1] / scale - bounds.height) / 2;
    // The canvas has two pixels per pixel of the page, for screens of high density.
    const picture = document.createElement("canvas");
    [picture.width, picture.height] = CANVAS_SIZE.map((length) => length * 2);
    const context = picture.getContext("2d");
    context.scale(2 * scale, 2 * scale);
    context.translate(-left, -top);
    for (const mapBox of boxes) {
      context.fillStyle = mapBox.innerFrame ? (mapBox.depth % 2 ? colors.panel : colors.hover) : mapBox.box.lit ? colors.accent : colors.edge;
      context.fillRect(mapBox.x, mapBox.y, Math.max(mapBox.width, 1.2 / scale), Math.max(mapBox.height, 1.2 / scale));
    }
    Object.assign(this, { scene, scale, left, top, picture });
  }

  /**
   * Show the overview with a rectangle around the visible part. Hide the overview if the whole map is visible, or if `hasSpace` is false.
   * view: the visible part (left, top, right, bottom), in units of the map.
   */
  drawView(view, colors, hasSpace) {
    const { bounds } = this.scene;
    const { element, scale, left, top } = this;
    const isAllVisible = view.left <= bounds.left && view.top <= bounds.top && view.right >= bounds.left + bounds.width && view.bottom >= bounds.top + bounds.height;
    element.hidden = isAllVisible || !hasSpace;
    if (element.hidden) return;
    const context = element.getContext("2d");
    if (element.width !== CANVAS_SIZE[0] * 2) [element.width, element.height] = CANVAS_SIZE.map((length) => length * 2);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, element.width, element.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    context.strokeRect((view.left - left) * scale, (view.top - top) * scale, (view.right - view.left) * scale, (view.bottom - view.top) * scale);
  }
}
