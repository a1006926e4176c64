// The overview: the whole map at a small scale in a corner, with a frame around the visible part.

import { html } from "./api.js";

const SIZE = [190, 140];

export class Overview {
  /** go(x, y): moves the map to a point. */
  constructor(go) {
    this.element = html("canvas", { id: "map-overview", "aria-hidden": "true" });
    const follow = (event) => {
      if (event.buttons && this.scene) go(event.offsetX / this.scale + this.left, event.offsetY / this.scale + this.top);
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      follow(event);
    });
    this.element.addEventListener("pointermove", follow);
  }

  /** Draw the boxes of a scene; called once after each change of the scene. */
  draw(scene, colors) {
    const { bounds, boxes } = scene;
    const scale = Math.min(SIZE[0] / bounds.width, SIZE[1] / bounds.height);
    const left = bounds.left - (SIZE[0] / scale - bounds.width) / 2;
    const top = bounds.top - (SIZE[1] / scale - bounds.height) / 2;
    const picture = document.createElement("canvas");
    [picture.width, picture.height] = SIZE.map((side) => side * 2);
    const context = picture.getContext("2d");
    context.scale(2 * scale, 2 * scale);
    context.translate(-left, -top);
    for (const one of boxes) {
      context.fillStyle = one.inner ? (one.depth % 2 ? colors.panel : colors.hover) : one.box.lit ? colors.accent : colors.edge;
      context.fillRect(one.x, one.y, Math.max(one.width, 1.2 / scale), Math.max(one.height, 1.2 / scale));
    }
    Object.assign(this, { scene, scale, left, top, picture });
  }

  /** Draw the frame of the visible part; hide the overview if all is visible, or if there is no room. */
  drawView(view, colors, hasRoom) {
    const { bounds } = this.scene;
    const { element, scale, left, top } = this;
    const seesAll = view.left <= bounds.left && view.top <= bounds.top && view.right >= bounds.left + bounds.width && view.bottom >= bounds.top + bounds.height;
    element.hidden = seesAll || !hasRoom;
    if (element.hidden) return;
    const context = element.getContext("2d");
    if (element.width !== SIZE[0] * 2) [element.width, element.height] = SIZE.map((side) => side * 2);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, element.width, element.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    context.strokeRect((view.left - left) * scale, (view.top - top) * scale, (view.right - view.left) * scale, (view.bottom - view.top) * scale);
  }
}
