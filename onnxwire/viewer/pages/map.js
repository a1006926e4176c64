// The map: pan, zoom, open and close groups, by mouse and keyboard. mapBox: a box of a scene, as `flatten` of map_scene.js returns it.

import { ask, html, nounText } from "./api.js";
import { MAX_SCALE, MIN_SCALE, cameraOfBeginning, boundsOf, moveBesideCard, cameraOfBox } from "./map_camera.js";
import { canOpen, describeBox, describeNode, describeRoute, kindText, makeLegend, opensByMember } from "./map_card.js";
import { MapOverview } from "./map_overview.js";
import { CanvasPen, SvgPen, paint, readColors, titleOf } from "./map_paint.js";
import { Frame, TITLE_HEIGHT, flatten } from "./map_scene.js";

const ANIMATION_MS = 180; // duration of an animation in milliseconds
const MAX_FREE_NODES = 8; // maximum number of nodes beside a single group that is opened automatically
const MAX_AUTO_OPENED = 8; // maximum number of nested groups that are opened automatically
const MAX_PIXELS = 64e6; // maximum number of pixels of a saved PNG
const MAX_SIDE = 16_000; // maximum width and height in pixels of a saved PNG, which every browser can draw
const CARD_WIDTH = 318; // width in pixels of the left part of the map in which the card is shown; see #map-card of page.css
const MIN_WIDTH_BESIDE_CARD = 720; // on a narrower map, in pixels, the card covers boxes
const MIN_WIDTH_WITH_OVERVIEW = 760; // minimum width in pixels of a map with the overview
const MIN_REVEAL_SCALE = 0.55; // at a smaller scale, revealing a box changes the scale
const REVEAL_SCALE = 0.9; // the scale that revealing a box sets
const MIN_STEP = 8; // in units of the map; an arrow key skips boxes that are at most this far in its direction, such as boxes of the same row
const DIRECTION_KEY = "onnxwire map direction"; // the key of the direction of edges in the browser's storage
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
// Return the progress of an animation, fast at the start and slow at the end. t: the elapsed share of the duration.
const ease = (t) => t * (2 - t);
const interpolate = (a, b, t) => a + (b - a) * t;
const WHEEL_ZOOM = 0.0018; // logarithm of the zoom factor per pixel of the wheel
const PINCH_ZOOM = 0.01; // logarithm of the zoom factor per pixel of the pinch gesture, which reports fewer pixels
const MAX_WHEEL_PIXELS = 240; // maximum number of pixels of one event, since some devices report thousands
const LINE_PIXELS = 16; // pixels of a line, for wheels that report lines
const ZOOM_STEP = 1.4; // factor of the zoom by a button
const MIN_DRAG_PIXELS = 4; // a shorter movement of a pressed pointer is a click

/** The map of the model with its buttons, the card of the selection, and the overview. */
export class MapView {
  /**
   * element: the container of the map. setAddress(hash, replaceHistory): changes the fragment of the address; replaceHistory: without
   * a new entry in the history. reportError(error): shows an error.
   */
  constructor(element, { setAddress, reportError }) {
    Object.assign(this, { element, setAddress, reportError });
    this.canvas = html("canvas", { id: "map-canvas", tabindex: 0, role: "application", "aria-label": "Map of the model", "aria-describedby": "map-keys" });
    this.overview = new MapOverview((x, y) => {
      this.camera.x = x - this.width / 2 / this.camera.scale;
      this.camera.y = y - this.height / 2 / this.camera.scale;
      this.redraw();
    });
    this.card = html("aside", { id: "map-card", "aria-label": "Selection on the map" });
    this.status = html("p", { id: "map-status", class: "unseen", role: "status" });
    this.message = html("p", { id: "map-message" });
    const makeButton = (text, label, onclick) => html("button", { type: "button", class: "small-button", title: label, "aria-label": label, onclick }, text);
    this.note = html("span", { class: "note" });
    // The direction is stored for the origin of the page, so that a reload and other tabs have the same direction.
    this.toRight = localStorage.getItem(DIRECTION_KEY) === "right";
    this.directionButton = makeButton("", "Edges lead down, or to the right (h)", () => this.toggleDirection());
    this.directionButton.id = "map-direction";
    this.paintDirectionButton();
    const bar = html("div", { id: "map-bar", role: "toolbar", "aria-label": "Map" }, this.note,
      makeButton("−", "Zoom out (-)", () => this.zoom(1 / ZOOM_STEP)), makeButton("+", "Zoom in (+)", () => this.zoom(ZOOM_STEP)), makeButton("Fit", "Show all (0)", () => this.fit()),
      this.directionButton,
      makeButton("Close all", "Close all groups (c)", () => this.closeAll()),
      makeLegend(), makeButton("SVG", "Save the map as SVG", () => this.save("svg")), makeButton("PNG", "Save the map as PNG", () => this.save("png")));
    element.append(this.canvas, bar, this.card, this.overview.element, this.message, this.status,
      html("p", { id: "map-keys", class: "unseen" }, "Arrow keys select a box, Enter opens or closes it, Escape selects the group around it, + and - zoom, 0 shows all, F shows the selection, [ and ] go through equal blocks, A shows them all, P begins or ends a route, C closes all groups, H turns the map."));
    this.pen = new CanvasPen(this.canvas.getContext("2d"));
    this.camera = { x: 0, y: 0, scale: 1 };
    this.root = null; // the frame of the shown graph
    this.scene = null; // the positions of all boxes, from `flatten`
    this.selected = ""; // the name of the selected box
    this.start = null; // the node at which a route starts: {name, path, label}
    this.route = null; // the highlighted route: {start, end, nodes}, the paths of the nodes at its two ends and the number of its nodes
    this.requestId = 0; // incremented by `show` and `toggleDirection`; answers to earlier requests are ignored
    this.addListeners();
  }

  addListeners() {
    const { canvas } = this;
    new ResizeObserver(() => this.resize()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      // Browsers report the pinch gesture of a trackpad as wheel events with Ctrl.
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PIXELS : 1;
      if (event.shiftKey) this.pan(-(event.deltaX || event.deltaY) * unit, 0);
      else {
        const distance = Math.max(Math.min(event.deltaY * unit, MAX_WHEEL_PIXELS), -MAX_WHEEL_PIXELS);
        this.zoom(Math.exp(-distance * (event.ctrlKey ? PINCH_ZOOM : WHEEL_ZOOM)), event.offsetX, event.offsetY);
      }
    }, { passive: false });
    let press = null; // the start of the last press, and whether the pointer has moved
    const pointers = new Map(); // the last points of the pressed pointers, by id
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      press = { x: event.offsetX, y: event.offsetY, hasMoved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const previousPoint = pointers.get(event.pointerId);
      if (!previousPoint) {
        const mapBox = this.boxAt(event.offsetX, event.offsetY);
        canvas.style.cursor = mapBox ? "pointer" : "grab";
        return;
      }
      const [x, y] = [event.offsetX, event.offsetY];
      if (pointers.size === 2) {
        const [otherPoint] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
        const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
        this.zoom(distance([x, y], otherPoint) / distance(previousPoint, otherPoint), (x + otherPoint[0]) / 2, (y + otherPoint[1]) / 2);
        press.hasMoved = true;
      } else if (press.hasMoved || Math.hypot(x - press.x, y - press.y) > MIN_DRAG_PIXELS) {
        press.hasMoved = true;
        canvas.style.cursor = "grabbing";
        this.pan(x - previousPoint[0], y - previousPoint[1]);
      }
      pointers.set(event.pointerId, [x, y]);
    });
    canvas.addEventListener("pointerup", (event) => {
      pointers.delete(event.pointerId);
      if (press && !press.hasMoved && !pointers.size) this.handleClick(event);
    });
    canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("keydown", (event) => this.handleKey(event));
  }

  /** Open the groups around a graph, group or node, and select it. target: the path of the graph or node, or the group's name. */
  async show(target) {
    this.requestId += 1;
    const ownId = this.requestId;
    const isNode = /\.node\[\d+\]$/.test(target);
    const groups = isNode ? await ask("locate", { path: target }) : groupsAround(target || "graph");
    const root = groups.opened[0];
    if (ownId !== this.requestId) return;
    const isNewGraph = this.root?.name !== root;
    if (isNewGraph) {
      this.message.textContent = "reading…";
      const frame = await this.load(root);
      if (ownId !== this.requestId) return;
      this.root = frame;
      this.scene = null;
      await this.openSingleGroups(frame);
    }
    if (groups.name === this.selected && !isNewGraph) return;
    await this.openAll(groups.opened.slice(1));
    if (ownId !== this.requestId) return;
    this.message.textContent = "";
    this.scene = null;
    this.layout();
    if (isNewGraph) this.showBeginning(false);
    this.selectBox(groups.name === root ? "" : groups.name, false);
    if (this.selected) this.reveal(this.selected, !isNewGraph);
    this.resize();
  }

  /** Discard the loaded groups, the route and the start of a route. `show` then loads the map again. */
  discard() {
    this.root = this.route = this.start = null;
  }

  /** Load the contents of a group, and return its frame. */
  async load(name) {
    const { toRight } = this;
    const routeEnds = this.route ? { start: this.route.start, end: this.route.end } : {};
    return new Frame(name, await ask("map", { group: name, to_right: toRight || null, ...routeEnds }), toRight);
  }

  /** Open the only group in a frame, and repeat this inside the opened group, up to MAX_AUTO_OPENED groups. Equal nodes, groups beside more than 8 nodes, and equal blocks beside any node stay closed. */
  async openSingleGroups(frame) {
    for (let depth = 0, innerFrame = frame; depth < MAX_AUTO_OPENED; depth += 1) {
      const boxes = innerFrame.answer.boxes.filter((box) => box.number !== null); // without inputs and outputs
      const groupBoxes = boxes.filter((box) => box.kind !== "node");
      const isAlone = groupBoxes.length === 1 && (boxes.length === 1 || (!groupBoxes[0].times && boxes.length <= 1 + MAX_FREE_NODES));
      if (!isAlone || groupBoxes[0].member_kind === "node") return;
      const name = `${innerFrame.name}/${groupBoxes[0].number}`;
      innerFrame = await this.openBox(innerFrame, innerFrame.answer.boxes.indexOf(groupBoxes[0]), groupBoxes[0].times ? `${name}*0` : name);
    }
  }

  paintDirectionButton() {
    this.directionButton.textContent = this.toRight ? "→" : "↓";
    this.directionButton.setAttribute("aria-pressed", String(this.toRight));
  }

  /** Switch between edges that lead down and edges that lead to the right; the same groups stay open. */
  async toggleDirection() {
    this.toRight = !this.toRight;
    localStorage.setItem(DIRECTION_KEY, this.toRight ? "right" : "down");
    this.paintDirectionButton();
    if (!this.root) return;
    const ownId = (this.requestId += 1);
    const reloadFrame = async (frame) => {
      const newFrame = await this.load(frame.name);
      for (const [index, innerFrame] of frame.open) newFrame.open.set(index, await reloadFrame(innerFrame));
      return newFrame;
    };
    try {
      const newRoot = await reloadFrame(this.root);
      if (ownId !== this.requestId) return;
      this.root = newRoot;
    } catch (error) {
      return this.reportError(error);
    }
    this.scene = this.animation = null;
    this.layout();
    this.showBeginning(false);
    this.selectBox(this.selected, false);
    if (this.selected) this.reveal(this.selected, false);
  }

  /** Open a box of a frame by its index, and return its frame. name: the name of the frame that the box then shows: that of the group or, with *index at its end, of one of its equal blocks. */
  async openBox(frame, index, name) {
    const innerFrame = await this.load(name);
    frame.open.set(index, innerFrame);
    return innerFrame;
  }

  /** Open groups by their names, from the outermost. */
  async openAll(names) {
    for (const name of names) {
      const [frame, index] = this.findOwner(name);
      if (frame && frame.open.get(index)?.name !== name) await this.openBox(frame, index, name);
    }
  }

  /** Return the frame that contains the box of a group or of one of its equal blocks, and the index of the box in it. The frame is null if it is not open; the index is -1 if there is no such box. */
  findOwner(name) {
    const lastSlash = name.lastIndexOf("/");
    const number = Number(name.slice(lastSlash + 1).split("*")[0]);
    for (const frame of this.root.all()) {
      if (frame.name === name.slice(0, lastSlash)) return [frame, frame.answer.boxes.findIndex((box) => box.number === number)];
    }
    return [null, -1];
  }

  /**
   * Compute the positions of all boxes. keep: the name of the box that keeps its position on the screen. isImmediate: do not
   * animate the change. movesBesideCard: move the camera afterwards so that the box is visible and beside the card.
   */
  layout(keep = "", isImmediate = false, movesBesideCard = false) {
    const oldScene = this.scene;
    const oldBoxes = oldScene && new Map(oldScene.boxes.map((mapBox) => [mapBox.name, mapBox]));
    this.scene = flatten(this.root);
    this.byName = new Map(this.scene.boxes.map((mapBox) => [mapBox.name, mapBox]));
    for (const mapBox of this.scene.boxes) {
      // If a box of equal blocks shows one of them, the name of the shown frame ends with * and the index of the block.
      const member = mapBox.innerFrame && mapBox.innerFrame.name !== mapBox.name ? Number(mapBox.innerFrame.name.split("*").pop()) : undefined;
      if (member !== undefined) Object.assign(mapBox, { member, title: mapBox.innerFrame.answer.label });
    }
    this.canvas.dataset.boxes = this.scene.boxes.length;
    const leftOff = [...this.root.all()].reduce((sum, frame) => sum + frame.answer.left_off, 0);
    this.note.textContent = leftOff ? `${nounText(leftOff, "edge")} not drawn` : "";
    const oldCamera = { ...this.camera };
    const newCamera = { ...this.camera };
    const [oldBox, newBox] = [oldBoxes?.get(keep), this.byName.get(keep)];
    if (oldBox && newBox) {
      newCamera.x += this.toRight ? newBox.x - oldBox.x : newBox.x + newBox.width / 2 - oldBox.x - oldBox.width / 2;
      newCamera.y += newBox.y - oldBox.y;
      if (movesBesideCard) moveBesideCard(newCamera, this.viewport(true), newBox, this.toRight);
    }
    this.colors ??= readColors();
    this.overview.draw(this.scene, this.colors);
    this.camera = newCamera;
    if (!oldBoxes || isImmediate || reducedMotion.matches) return this.redraw();
    this.animate(oldCamera, newCamera, oldScene, oldBoxes);
  }

  /** Move the camera in an animation; with an old scene, also the boxes. from, to: cameras. oldBoxes: the old scene's boxes by name. */
  animate(from, to, oldScene = null, oldBoxes = null) {
    const startTime = performance.now();
    const scene = this.scene;
    const drawStep = (this.animation = (now) => {
      if (this.animation !== drawStep) return;
      const progress = ease(Math.min(Math.max((now - startTime) / ANIMATION_MS, 0), 1));
      this.camera = { x: interpolate(from.x, to.x, progress), y: interpolate(from.y, to.y, progress), scale: interpolate(from.scale, to.scale, progress) };
      this.draw(progress < 1 && oldBoxes ? interpolateScene(scene, oldScene, oldBoxes, progress) : scene, progress < 1 && oldBoxes ? (name) => (oldBoxes.has(name) ? 1 : progress) : null);
      if (progress < 1) requestAnimationFrame(drawStep);
      else this.animation = null;
    });
    requestAnimationFrame(drawStep);
  }

  /** Draw the map when the browser next repaints the page. */
  redraw() {
    if (this.animation) return;
    if (this.isDrawScheduled) return;
    this.isDrawScheduled = true;
    requestAnimationFrame(() => {
      this.isDrawScheduled = false;
      if (!this.animation && this.scene) this.draw(this.scene);
    });
  }

  /** Return the visible part of the map, in coordinates of the map, and the scale. */
  view() {
    const { x, y, scale } = this.camera;
    return { left: x, top: y, right: x + this.width / scale, bottom: y + this.height / scale, scale };
  }

  /** Draw a scene. alpha: as for `paint`. */
  draw(scene, alpha = null) {
    if (!this.width) return;
    const { context } = this.pen;
    const { x, y, scale } = this.camera;
    this.colors ??= readColors();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colors.ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const zoom = scale * this.density;
    context.setTransform(zoom, 0, 0, zoom, -x * zoom, -y * zoom);
    paint(this.pen, scene, this.view(), this.colors, { selected: this.selected, start: this.start?.name, alpha });
    this.overview.drawView(this.view(), this.colors, this.width >= MIN_WIDTH_WITH_OVERVIEW);
    // For tests: the scale, and the rectangle of the selected box on the canvas.
    const selectedBox = this.byName?.get(this.selected);
    this.canvas.dataset.scale = scale.toFixed(3);
    this.canvas.dataset.selected = selectedBox ? [(selectedBox.x - x) * scale, (selectedBox.y - y) * scale, selectedBox.width * scale, selectedBox.height * scale].map(Math.round).join(" ") : "";
  }

  /** Adapt the canvas to the size of its container. */
  resize() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const density = devicePixelRatio || 1;
    if (!width || (width === this.width && height === this.height && density === this.density)) return;
    const isFirst = !this.width;
    Object.assign(this, { width, height, density });
    [this.canvas.width, this.canvas.height] = [width * density, height * density];
    if (this.scene && isFirst) {
      this.showBeginning(false);
      if (this.selected) this.reveal(this.selected, false);
    }
    if (this.scene) this.draw(this.scene);
  }

  /** Draw the map in the present colors of the page. */
  recolor() {
    this.colors = readColors();
    if (!this.scene) return;
    this.overview.draw(this.scene, this.colors);
    this.redraw();
  }

  /** Move the map by pixels of the screen. */
  pan(dx, dy) {
    this.animation = null;
    this.camera.x -= dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.redraw();
  }

  /** Change the scale by a factor; the point x, y of the canvas keeps its position. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.animation = null;
    const { camera } = this;
    const scale = Math.min(Math.max(camera.scale * factor, MIN_SCALE), MAX_SCALE);
    camera.x += x / camera.scale - x / scale;
    camera.y += y / camera.scale - y / scale;
    camera.scale = scale;
    this.redraw();
  }

  /** Show the whole map, or one box, beside the card. isMoving: whether to animate the camera. */
  fit(isMoving = true, box = null) {
    if (this.width && this.scene) this.moveCamera(cameraOfBox(this.viewport(), box ?? boundsOf(this.scene)), isMoving);
  }

  /** Show the whole map if its text is then legible, else its beginning at a legible scale. isMoving: whether to animate the camera. */
  showBeginning(isMoving = true) {
    if (this.width && this.scene) this.moveCamera(cameraOfBeginning(this.viewport(), this.scene), isMoving);
  }

  /** Return the size of the canvas, and the width of its left part that the card of the selection covers, 0 on a narrow map. hasCard: whether the card is shown. */
  viewport(hasCard = !this.card.hidden && this.card.childElementCount > 0) {
    return { width: this.width, height: this.height, covered: hasCard && this.width >= MIN_WIDTH_BESIDE_CARD ? CARD_WIDTH : 0 };
  }

  moveCamera(camera, isMoving) {
    if (isMoving && !reducedMotion.matches) return this.animate({ ...this.camera }, camera);
    this.camera = camera;
    return this.redraw();
  }

  /** Move the camera so that a box is visible; of an open group, at least its upper part. */
  reveal(name, isMoving = true) {
    const mapBox = this.byName.get(name);
    if (!mapBox || !this.width) return;
    const newCamera = { ...this.camera };
    if (newCamera.scale < MIN_REVEAL_SCALE) newCamera.scale = REVEAL_SCALE;
    const height = mapBox.innerFrame ? Math.min(mapBox.height, this.height / newCamera.scale / 2) : mapBox.height;
    const [x, y] = [mapBox.x + mapBox.width / 2, mapBox.y + height / 2];
    const view = this.view();
    const margin = 30;
    const { covered } = this.viewport();
    view.left += covered / newCamera.scale;
    // The overview covers the lower right.
    view.bottom -= Math.min(150, this.height / 3) / newCamera.scale;
    const isVisible = newCamera.scale === this.camera.scale && mapBox.x > view.left + margin && mapBox.x + mapBox.width < view.right - margin && mapBox.y > view.top + margin && mapBox.y + height < view.bottom - margin;
    if (isVisible) return this.redraw();
    newCamera.x = x - (covered + (this.width - covered) / 2) / newCamera.scale;
    newCamera.y = y - (this.height * 0.4) / newCamera.scale;
    return this.moveCamera(newCamera, isMoving);
  }

  /** Return the innermost box at a point of the canvas, or null if there is none; for an open group outside of its title, also null. */
  boxAt(canvasX, canvasY) {
    if (!this.scene) return null;
    const { x, y, scale } = this.camera;
    const [mapX, mapY] = [canvasX / scale + x, canvasY / scale + y];
    for (let i = this.scene.boxes.length - 1; i >= 0; i -= 1) {
      const mapBox = this.scene.boxes[i];
      if (mapX < mapBox.x || mapX > mapBox.x + mapBox.width || mapY < mapBox.y || mapY > mapBox.y + mapBox.height) continue;
      if (!mapBox.innerFrame || mapY < mapBox.y + TITLE_HEIGHT) return mapBox;
      return null;
    }
    return null;
  }

  /**
   * Select the clicked box. A click opens or closes a group. A double click on a node, or a click on the selected node, opens or closes
   * its contents, or shows its details. A click on the arrows in a title shows another block.
   */
  handleClick(event) {
    this.canvas.focus({ preventScroll: true });
    const mapBox = this.boxAt(event.offsetX, event.offsetY);
    if (!mapBox) return this.selectBox("");
    if (mapBox.member !== undefined && mapBox.stepAt) {
      const mapX = event.offsetX / this.camera.scale + this.camera.x;
      if (mapX > mapBox.stepAt[0] && mapX < mapBox.stepAt[0] + mapBox.stepAt[2]) return this.showNextMember(mapBox, mapX < mapBox.stepAt[0] + mapBox.stepAt[2] / 2 ? -1 : 1);
    }
    const wasSelected = mapBox.name === this.selected;
    this.selectBox(mapBox.name);
    if (canOpen(mapBox.box) && mapBox.box.kind !== "node") this.toggle(mapBox);
    else if (wasSelected || event.detail > 1) this.openOrShowDetails(mapBox);
    return null;
  }

  /** Open or close a box with contents, or show the details of a node. */
  openOrShowDetails(mapBox) {
    if (canOpen(mapBox.box)) this.toggle(mapBox);
    else if (mapBox.box.path) this.setAddress(`node=${encodeURIComponent(mapBox.box.path)}`);
  }

  /** Open or close a box. member: for a group of equal blocks, the index of the block to show. */
  async toggle(mapBox, member = 0) {
    this.animation = null;
    const ownId = this.requestId;
    if (mapBox.innerFrame) mapBox.frame.open.delete(mapBox.index);
    else {
      try {
        const timer = setTimeout(() => (this.message.textContent = "reading…"), 200);
        await this.openBox(mapBox.frame, mapBox.index, opensByMember(mapBox.box) ? `${mapBox.name}*${member}` : mapBox.name).finally(() => clearTimeout(timer));
        this.message.textContent = "";
        await this.openSingleGroups(mapBox.frame.open.get(mapBox.index));
      } catch (error) {
        return this.reportError(error);
      }
      if (ownId !== this.requestId || !this.byName.has(mapBox.name)) return null;
    }
    this.layout(mapBox.name, false, mapBox.frame.open.has(mapBox.index));
    this.selectBox(mapBox.name);
    return null;
  }

  /** Replace an open block by the next equal block (difference 1) or the previous one (-1). */
  async showNextMember(mapBox, difference) {
    const member = (mapBox.member + difference + mapBox.box.times) % mapBox.box.times;
    return this.replaceContents(mapBox, `${mapBox.name}*${member}`, true);
  }

  /** Show all blocks of a group of equal blocks, each closed. */
  async showAllMembers(mapBox) {
    return this.replaceContents(mapBox, mapBox.name, false);
  }

  /** Show other contents in an open box. name: the name of the new frame. */
  async replaceContents(mapBox, name, isImmediate) {
    try {
      await this.openBox(mapBox.frame, mapBox.index, name);
    } catch (error) {
      return this.reportError(error);
    }
    this.layout(mapBox.name, isImmediate);
    return this.selectBox(mapBox.name);
  }

  /** Close all groups. */
  closeAll() {
    this.root.open.clear();
    this.selectBox("");
    this.layout();
    this.showBeginning();
  }

  /** Select a box by its name, "" for none. changesAddress: whether the address then names the box. */
  selectBox(name, changesAddress = true) {
    this.selected = this.byName?.has(name) ? name : "";
    const mapBox = this.byName?.get(this.selected);
    this.showCard(mapBox);
    if (mapBox) {
      const state = canOpen(mapBox.box) ? (mapBox.innerFrame ? ", open" : ", closed") : "";
      this.status.textContent = `${kindText(mapBox.box)} ${titleOf(mapBox.box)}${mapBox.box.kind === "node" ? ` ${mapBox.box.label}` : ""}${state}`;
    } else this.status.textContent = "";
    if (changesAddress) this.setAddress(`map=${encodeURIComponent(mapBox?.box.path && mapBox.box.kind === "node" ? mapBox.box.path : this.selected || this.root.name)}`, true);
    this.redraw();
  }

  handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.scene) return;
    const mapBox = this.byName.get(this.selected);
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) this.pan(-arrow[0] * 80, -arrow[1] * 80);
    else if (arrow) this.selectNeighbour(mapBox, arrow);
    else if ((event.key === "Enter" || event.key === " ") && mapBox) this.openOrShowDetails(mapBox);
    else if (event.key === "Escape") {
      if (this.start) this.setStart(null);
      else if (this.route) this.setRoute(null);
      else if (mapBox && mapBox.frame !== this.root) this.selectAndReveal([...this.scene.boxes].find((candidate) => candidate.innerFrame === mapBox.frame));
      else if (mapBox) this.selectBox("");
      else return;
      event.stopPropagation();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "f" && mapBox) this.fit(true, mapBox);
    else if (event.key === "c") this.closeAll();
    else if (event.key === "h") this.toggleDirection();
    else if (event.key === "p" && mapBox?.box.kind === "node") this.setRouteEnd(mapBox);
    else if (event.key === "a" && mapBox && opensByMember(mapBox.box)) this.showAllMembers(mapBox);
    else if ((event.key === "[" || event.key === "]") && mapBox?.member !== undefined) this.showNextMember(mapBox, event.key === "[" ? -1 : 1);
    else return;
    event.preventDefault();
  }

  /** Select a box, and move the camera to it. */
  selectAndReveal(mapBox) {
    if (!mapBox) return;
    this.selectBox(mapBox.name);
    this.reveal(mapBox.name);
  }

  /** Select the nearest box in a direction. From an open group, the direction down leads to a box in the group. */
  selectNeighbour(mapBox, [dx, dy]) {
    const boxes = this.scene.boxes;
    if (!mapBox) return this.selectAndReveal(boxes[0]);
    const entersGroup = mapBox.innerFrame && dy > 0;
    const candidates = boxes.filter((candidate) => candidate.frame === (entersGroup ? mapBox.innerFrame : mapBox.frame) && candidate !== mapBox);
    const [x, y] = entersGroup ? [mapBox.x + mapBox.width / 2, mapBox.y] : [mapBox.x + mapBox.width / 2, mapBox.y + mapBox.height / 2];
    let [nearest, minDistance] = [null, Infinity];
    for (const candidate of candidates) {
      const [offsetX, offsetY] = [candidate.x + candidate.width / 2 - x, candidate.y + candidate.height / 2 - y];
      const along = offsetX * dx + offsetY * dy;
      const distance = along + 2 * Math.abs(offsetX * dy + offsetY * dx);
      if (along > MIN_STEP && distance < minDistance) [nearest, minDistance] = [candidate, distance];
    }
    // At the border of a group, continue outside of the group.
    const outerBox = boxes.find((candidate) => candidate.innerFrame === mapBox.frame);
    if (nearest) this.selectAndReveal(nearest);
    else if (outerBox && dy < 0) this.selectAndReveal(outerBox);
    else if (outerBox) this.selectNeighbour({ ...outerBox, innerFrame: null }, [dx, dy]);
    return null;
  }

  /** Begin a route at a node. If a route was begun, end it at the node, or cancel it if it begins at the node. */
  setRouteEnd(mapBox) {
    if (!this.start || this.start.path === mapBox.box.path) return this.setStart(this.start ? null : mapBox);
    const { path } = this.start;
    this.start = null;
    return this.setRoute({ start: path, end: mapBox.box.path });
  }

  /** Set the node at which a route begins; null for none. */
  setStart(mapBox) {
    this.start = mapBox && { name: mapBox.name, path: mapBox.box.path, label: mapBox.box.label };
    this.showCard(this.byName.get(this.selected));
    this.redraw();
  }

  /** Highlight the route between two nodes in all open groups; null removes the highlighting. */
  async setRoute(route) {
    try {
      const nodes = route && (await ask("route", route)).nodes;
      this.route = route && { ...route, nodes };
      for (const frame of this.root.all()) {
        const { answer } = await this.load(frame.name);
        frame.answer.boxes.forEach((box, i) => (box.lit = answer.boxes[i].lit));
        frame.answer.edges.forEach((edge, i) => (edge.lit = answer.edges[i].lit));
      }
    } catch (error) {
      this.reportError(error);
    }
    this.layout("", true);
    this.selectBox(this.selected);
  }

  /** Show the card of the selected box, and of the route. */
  showCard(mapBox) {
    const children = [...(mapBox ? describeBox(this, mapBox) : []), ...describeRoute(this)];
    this.card.replaceChildren(...children);
    this.card.hidden = !children.length;
    if (mapBox?.box.kind === "node") this.addNode(mapBox.box.path);
  }

  /** Add attributes, inputs and outputs of the selected node to the card, if the node is still selected after 120 ms. */
  async addNode(path) {
    const ownId = (this.cardId = (this.cardId ?? 0) + 1);
    await new Promise((resolve) => setTimeout(resolve, 120));
    if (ownId !== this.cardId) return;
    const node = await ask("node", { path }).catch(() => null);
    const container = this.card.querySelector(".of-node");
    if (node && container && ownId === this.cardId) container.replaceChildren(...describeNode(node));
  }

  /** Save the whole map as a picture. kind: "svg" or "png". */
  async save(kind) {
    const { bounds } = this.scene;
    const margin = 24;
    const area = { left: bounds.left - margin, top: bounds.top - margin, width: bounds.width + 2 * margin, height: bounds.height + 2 * margin };
    const view = { left: area.left, top: area.top, right: area.left + area.width, bottom: area.top + area.height, scale: 1 };
    let blob;
    if (kind === "svg") {
      const pen = new SvgPen();
      paint(pen, this.scene, view, this.colors);
      blob = new Blob([pen.document(area, this.colors.ground)], { type: "image/svg+xml" });
    } else {
      const canvas = document.createElement("canvas");
      const scale = Math.min(2, Math.sqrt(MAX_PIXELS / (area.width * area.height)), MAX_SIDE / Math.max(area.width, area.height));
      [canvas.width, canvas.height] = [Math.ceil(area.width * scale), Math.ceil(area.height * scale)];
      const context = canvas.getContext("2d");
      context.fillStyle = this.colors.ground;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.setTransform(scale, 0, 0, scale, -area.left * scale, -area.top * scale);
      paint(new CanvasPen(context), this.scene, { ...view, scale }, this.colors);
      blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    }
    const address = URL.createObjectURL(blob);
    html("a", { href: address, download: `map.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}

/**
 * Return which groups to open for showing a group. opened: the names of the groups, the outermost first, such as graph and
 * graph/3*7. name: the name of the box that shows the group.
 */
function groupsAround(name) {
  const steps = name.split("/");
  const opened = steps.map((_, i) => steps.slice(0, i + 1).join("/"));
  const last = opened[opened.length - 1];
  const isMember = /\*\d+$/.test(last);
  if (opened.length > 1 && !isMember) opened.pop();
  return { opened, name: last.replace(/\*\d+$/, "") };
}

/** Return a scene of the animation between two scenes: common boxes move, new boxes are at their final positions. */
function interpolateScene(scene, oldScene, oldBoxes, progress) {
  const boxes = scene.boxes.map((mapBox) => {
    const oldBox = oldBoxes.get(mapBox.name);
    if (!oldBox) return mapBox;
    return { ...mapBox, x: interpolate(oldBox.x, mapBox.x, progress), y: interpolate(oldBox.y, mapBox.y, progress), width: interpolate(oldBox.width, mapBox.width, progress), height: interpolate(oldBox.height, mapBox.height, progress) };
  });
  const edges = new Map([...scene.edges].map(([frame, list]) => {
    const oldEdges = oldScene.edges.get(frame);
    return [frame, list.map((mapEdge, i) => {
      const points = oldEdges?.[i].points;
      if (points?.length !== mapEdge.points.length) return mapEdge;
      return { ...mapEdge, points: mapEdge.points.map(([x, y], pointIndex) => [interpolate(points[pointIndex][0], x, progress), interpolate(points[pointIndex][1], y, progress)]) };
    })];
  }));
  return { ...scene, boxes, edges };
}
