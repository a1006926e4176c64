// The map: pan, zoom, open and close groups, by mouse and keyboard.

import { ask, html, nounText } from "./api.js";
import { MAX_SCALE, MIN_SCALE, beginning, boundsOf, moveClear, whole } from "./map_camera.js";
import { canOpen, describe, describeNode, describePath, kindText, legend, opensByMember } from "./map_card.js";
import { Overview } from "./map_overview.js";
import { CanvasPen, SvgPen, paint, readColors, titleOf } from "./map_paint.js";
import { Frame, TITLE, flatten } from "./map_scene.js";

const ANIMATION_MS = 180;
const MAX_FREE_NODES = 8; // maximum number of nodes beside a single group that is opened automatically
const MAX_PIXELS = 64e6; // limit of a saved picture
const CARD_WIDTH = 318; // with its margins, as in page.css
const DIRECTION_KEY = "onnxwire map direction";
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const ease = (t) => t * (2 - t);
const mix = (a, b, t) => a + (b - a) * t;

export class MapView {
  /** element: the container of the map. go(hash): changes the address; trouble(error): shows an error. */
  constructor(element, { go, trouble }) {
    Object.assign(this, { element, go, trouble });
    this.canvas = html("canvas", { id: "map-canvas", tabindex: 0, role: "application", "aria-label": "Map of the model", "aria-describedby": "map-keys" });
    this.overview = new Overview((x, y) => {
      this.camera.x = x - this.width / 2 / this.camera.scale;
      this.camera.y = y - this.height / 2 / this.camera.scale;
      this.redraw();
    });
    this.card = html("aside", { id: "map-card", "aria-label": "Selection on the map" });
    this.status = html("p", { id: "map-status", class: "unseen", role: "status" });
    this.message = html("p", { id: "map-message" });
    const button = (text, label, onclick) => html("button", { type: "button", class: "step", title: label, "aria-label": label, onclick }, text);
    this.note = html("span", { class: "note" });
    // Stored for this address, so that a reload and other tabs have the same direction.
    this.toRight = localStorage.getItem(DIRECTION_KEY) === "right";
    this.turner = button("", "Edges lead down, or to the right (h)", () => this.turnAround());
    this.turner.id = "map-direction";
    this.paintTurner();
    const bar = html("div", { id: "map-bar", role: "toolbar", "aria-label": "Map" }, this.note,
      button("−", "Zoom out (-)", () => this.zoom(1 / 1.4)), button("+", "Zoom in (+)", () => this.zoom(1.4)), button("Fit", "Show all (0)", () => this.fit()),
      this.turner,
      button("Close all", "Close all groups (c)", () => this.closeAll()),
      legend(), button("SVG", "Save the map as SVG", () => this.save("svg")), button("PNG", "Save the map as PNG", () => this.save("png")));
    element.append(this.canvas, bar, this.card, this.overview.element, this.message, this.status,
      html("p", { id: "map-keys", class: "unseen" }, "Arrow keys select a box, Enter opens or closes it, Escape selects the group around it, + and - zoom, 0 shows all, F shows the selection, [ and ] go through equal blocks, A shows them all, P begins or ends a path, C closes all groups, H turns the map."));
    this.pen = new CanvasPen(this.canvas.getContext("2d"));
    this.camera = { x: 0, y: 0, scale: 1 };
    this.root = null;
    this.scene = null;
    this.selected = "";
    this.start = null; // the start of a path: {name, path, label}
    this.route = null; // a path: {start, end, nodes}
    this.turn = 0;
    this.frames = 0; // the number of drawn frames, for tests
    this.listen();
  }

  listen() {
    const { canvas } = this;
    new ResizeObserver(() => this.resize()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      // Browsers report the pinch gesture of a trackpad as wheel events with Ctrl.
      const unit = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey) this.pan(-(event.deltaX || event.deltaY) * unit, 0);
      else this.zoom(Math.exp(-Math.max(Math.min(event.deltaY * unit, 240), -240) * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
    }, { passive: false });
    let held = null;
    const pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      held = { x: event.offsetX, y: event.offsetY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) {
        const found = this.at(event.offsetX, event.offsetY);
        canvas.style.cursor = found ? "pointer" : "grab";
        return;
      }
      const [x, y] = [event.offsetX, event.offsetY];
      if (pointers.size === 2) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
        const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
        this.zoom(apart([x, y], other) / apart(last, other), (x + other[0]) / 2, (y + other[1]) / 2);
        held.moved = true;
      } else if (held.moved || Math.hypot(x - held.x, y - held.y) > 4) {
        held.moved = true;
        canvas.style.cursor = "grabbing";
        this.pan(x - last[0], y - last[1]);
      }
      pointers.set(event.pointerId, [x, y]);
    });
    canvas.addEventListener("pointerup", (event) => {
      pointers.delete(event.pointerId);
      if (held && !held.moved && !pointers.size) this.click(event);
    });
    canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Show a graph, a group or a node: open the groups around it, and select it. */
  async show(target) {
    this.turn += 1;
    const mine = this.turn;
    const isNode = /\.node\[\d+\]$/.test(target);
    const found = isNode ? await ask("locate", { path: target }) : groupsAround(target || "graph");
    const root = found.opened[0];
    if (mine !== this.turn) return;
    const isNew = this.root?.name !== root;
    if (isNew) {
      this.message.textContent = "reading…";
      const frame = await this.load(root);
      if (mine !== this.turn) return;
      this.root = frame;
      this.scene = null;
      await this.openOnly(frame);
    }
    if (found.name === this.selected && !isNew) return;
    await this.openAll(found.opened.slice(1));
    if (mine !== this.turn) return;
    this.message.textContent = "";
    this.scene = null;
    this.layout();
    if (isNew) this.begin(false);
    this.choose(found.name === root ? "" : found.name, false);
    if (this.selected) this.reveal(this.selected, !isNew);
    this.resize();
  }

  /** Reload the map when it is shown next, because the model was changed. */
  forget() {
    this.root = this.route = this.start = null;
  }

  async load(name) {
    const { toRight } = this;
    const values = this.route ? { start: this.route.start, end: this.route.end } : {};
    return new Frame(name, await ask("map", { group: name, to_right: toRight || null, ...values }), toRight);
  }

  /** Open a group that is alone in its frame except for a few nodes, and repeat this inside the group. */
  async openOnly(frame) {
    for (let depth = 0, inner = frame; depth < 8; depth += 1) {
      const boxes = inner.answer.boxes.filter((box) => box.number !== null);
      const groups = boxes.filter((box) => box.kind !== "node");
      const isAlone = groups.length === 1 && (boxes.length === 1 || (!groups[0].times && boxes.length <= 1 + MAX_FREE_NODES));
      if (!isAlone || groups[0].of === "node") return;
      const name = `${inner.name}/${groups[0].number}`;
      inner = await this.openBox(inner, inner.answer.boxes.indexOf(groups[0]), groups[0].times ? `${name}*0` : name);
    }
  }

  paintTurner() {
    this.turner.textContent = this.toRight ? "→" : "↓";
    this.turner.setAttribute("aria-pressed", String(this.toRight));
  }

  /** Let edges lead to the right instead of down, or down again; the same groups stay open. */
  async turnAround() {
    this.toRight = !this.toRight;
    localStorage.setItem(DIRECTION_KEY, this.toRight ? "right" : "down");
    this.paintTurner();
    if (!this.root) return;
    const mine = (this.turn += 1);
    const again = async (frame) => {
      const turned = await this.load(frame.name);
      for (const [index, inner] of frame.open) turned.open.set(index, await again(inner));
      return turned;
    };
    try {
      const root = await again(this.root);
      if (mine !== this.turn) return;
      this.root = root;
    } catch (error) {
      return this.trouble(error);
    }
    this.scene = this.moving = null;
    this.layout();
    this.begin(false);
    this.choose(this.selected, false);
    if (this.selected) this.reveal(this.selected, false);
  }

  async openBox(frame, index, name) {
    const inner = await this.load(name);
    frame.open.set(index, inner);
    return inner;
  }

  /** Open groups by their names, from the outermost. */
  async openAll(names) {
    for (const name of names) {
      const [frame, index] = this.owner(name);
      if (frame && frame.open.get(index)?.name !== name) await this.openBox(frame, index, name);
    }
  }

  /** The frame with the box of a group or member, and the number of the box in it. */
  owner(name) {
    const cutAt = name.lastIndexOf("/");
    const number = Number(name.slice(cutAt + 1).split("*")[0]);
    for (const frame of this.root.all()) {
      if (frame.name === name.slice(0, cutAt)) return [frame, frame.answer.boxes.findIndex((box) => box.number === number)];
    }
    return [null, -1];
  }

  /**
   * Compute the positions of all boxes. keep: the name of the box whose upper side, or whose upper left corner, keeps its
   * position on the screen. isClear: whether to move afterwards so that the box is visible and beside the card.
   */
  layout(keep = "", isCalm = false, isClear = false) {
    const before = this.scene;
    const old = before && new Map(before.boxes.map((one) => [one.name, one]));
    this.scene = flatten(this.root);
    this.byName = new Map(this.scene.boxes.map((one) => [one.name, one]));
    for (const one of this.scene.boxes) {
      const member = one.inner && one.inner.name !== one.name ? Number(one.inner.name.split("*").pop()) : undefined;
      if (member !== undefined) Object.assign(one, { member, title: one.inner.answer.label });
    }
    this.canvas.dataset.boxes = this.scene.boxes.length;
    const leftOff = [...this.root.all()].reduce((sum, frame) => sum + frame.answer.left_off, 0);
    this.note.textContent = leftOff ? `${nounText(leftOff, "edge")} not drawn` : "";
    const from = { ...this.camera };
    const to = { ...this.camera };
    const [was, is] = [old?.get(keep), this.byName.get(keep)];
    if (was && is) {
      to.x += this.toRight ? is.x - was.x : is.x + is.width / 2 - was.x - was.width / 2;
      to.y += is.y - was.y;
      if (isClear) moveClear(to, this.window(true), is, this.toRight);
    }
    this.colors ??= readColors();
    this.overview.draw(this.scene, this.colors);
    this.camera = to;
    if (!old || isCalm || reducedMotion.matches) return this.redraw();
    this.move(from, to, before, old);
  }

  /** Animate the camera, and the boxes from their old positions. */
  move(from, to, before = null, old = null) {
    const begin = performance.now();
    const scene = this.scene;
    const moving = (this.moving = (now) => {
      if (this.moving !== moving) return;
      const t = ease(Math.min(Math.max((now - begin) / ANIMATION_MS, 0), 1));
      this.camera = { x: mix(from.x, to.x, t), y: mix(from.y, to.y, t), scale: mix(from.scale, to.scale, t) };
      this.draw(t < 1 && old ? between(scene, before, old, t) : scene, t < 1 && old ? (name) => (old.has(name) ? 1 : t) : null);
      if (t < 1) requestAnimationFrame(moving);
      else this.moving = null;
    });
    requestAnimationFrame(moving);
  }

  redraw() {
    if (this.moving) return;
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      if (!this.moving && this.scene) this.draw(this.scene);
    });
  }

  view() {
    const { x, y, scale } = this.camera;
    return { left: x, top: y, right: x + this.width / scale, bottom: y + this.height / scale, scale };
  }

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
    this.overview.drawView(this.view(), this.colors, this.width >= 760);
    this.frames += 1;
    // For tests: the scale, and the rectangle of the selected box on the canvas.
    const one = this.byName?.get(this.selected);
    this.canvas.dataset.scale = scale.toFixed(3);
    this.canvas.dataset.selected = one ? [(one.x - x) * scale, (one.y - y) * scale, one.width * scale, one.height * scale].map(Math.round).join(" ") : "";
  }

  resize() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const density = devicePixelRatio || 1;
    if (!width || (width === this.width && height === this.height && density === this.density)) return;
    const isFirst = !this.width;
    Object.assign(this, { width, height, density });
    [this.canvas.width, this.canvas.height] = [width * density, height * density];
    if (this.scene && isFirst) {
      this.begin(false);
      if (this.selected) this.reveal(this.selected, false);
    }
    if (this.scene) this.draw(this.scene);
  }

  recolor() {
    this.colors = readColors();
    if (!this.scene) return;
    this.overview.draw(this.scene, this.colors);
    this.redraw();
  }

  pan(dx, dy) {
    this.moving = null;
    this.camera.x -= dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.moving = null;
    const { camera } = this;
    const scale = Math.min(Math.max(camera.scale * factor, MIN_SCALE), MAX_SCALE);
    camera.x += x / camera.scale - x / scale;
    camera.y += y / camera.scale - y / scale;
    camera.scale = scale;
    this.redraw();
  }

  /** Show the whole map, or one box, beside the card. */
  fit(isMoving = true, box = null) {
    if (this.width && this.scene) this.goTo(whole(this.window(), box ?? boundsOf(this.scene)), isMoving);
  }

  /** Show the whole map if its text is then legible, or else its beginning at a legible scale. */
  begin(isMoving = true) {
    if (this.width && this.scene) this.goTo(beginning(this.window(), this.scene), isMoving);
  }

  /** The size of the canvas, and the pixels at its left that the card of the selection covers. */
  window(hasCard = !this.card.hidden && this.card.childElementCount > 0) {
    return { width: this.width, height: this.height, covered: hasCard && this.width >= 720 ? CARD_WIDTH : 0 };
  }

  goTo(camera, isMoving) {
    if (isMoving && !reducedMotion.matches) return this.move({ ...this.camera }, camera);
    this.camera = camera;
    return this.redraw();
  }

  /** Move so that a box is visible, or the title of an open group. */
  reveal(name, isMoving = true) {
    const one = this.byName.get(name);
    if (!one || !this.width) return;
    const to = { ...this.camera };
    if (to.scale < 0.55) to.scale = 0.9;
    const height = one.inner ? Math.min(one.height, this.height / to.scale / 2) : one.height;
    const [x, y] = [one.x + one.width / 2, one.y + height / 2];
    const view = this.view();
    const margin = 30;
    const { covered } = this.window();
    view.left += covered / to.scale;
    // The overview covers the lower right.
    view.bottom -= Math.min(150, this.height / 3) / to.scale;
    const isSeen = to.scale === this.camera.scale && one.x > view.left + margin && one.x + one.width < view.right - margin && one.y > view.top + margin && one.y + height < view.bottom - margin;
    if (isSeen) return this.redraw();
    to.x = x - (covered + (this.width - covered) / 2) / to.scale;
    to.y = y - (this.height * 0.4) / to.scale;
    return this.goTo(to, isMoving);
  }

  /** The innermost box at a point of the canvas; an open group only at its title. */
  at(px, py) {
    if (!this.scene) return null;
    const { x, y, scale } = this.camera;
    const [wx, wy] = [px / scale + x, py / scale + y];
    for (let i = this.scene.boxes.length - 1; i >= 0; i -= 1) {
      const one = this.scene.boxes[i];
      if (wx < one.x || wx > one.x + one.width || wy < one.y || wy > one.y + one.height) continue;
      if (!one.inner || wy < Math.max(one.y, Math.min(y, one.y + one.height - TITLE)) + TITLE) return one;
      return null;
    }
    return null;
  }

  click(event) {
    this.canvas.focus({ preventScroll: true });
    const one = this.at(event.offsetX, event.offsetY);
    if (!one) return this.choose("");
    if (one.member !== undefined && one.stepAt) {
      const wx = event.offsetX / this.camera.scale + this.camera.x;
      if (wx > one.stepAt[0] && wx < one.stepAt[0] + one.stepAt[2]) return this.step(one, wx < one.stepAt[0] + one.stepAt[2] / 2 ? -1 : 1);
    }
    const wasSelected = one.name === this.selected;
    this.choose(one.name);
    if (canOpen(one.box) && one.box.kind !== "node") this.toggle(one);
    else if (wasSelected || event.detail > 1) this.enter(one);
    return null;
  }

  /** Open or close a group, or show the details of a node. */
  enter(one) {
    if (canOpen(one.box)) this.toggle(one);
    else if (one.box.path) this.go(`node=${encodeURIComponent(one.box.path)}`);
  }

  async toggle(one, member = 0) {
    this.moving = null;
    const mine = this.turn;
    if (one.inner) one.frame.open.delete(one.index);
    else {
      try {
        const wait = setTimeout(() => (this.message.textContent = "reading…"), 200);
        await this.openBox(one.frame, one.index, opensByMember(one.box) ? `${one.name}*${member}` : one.name).finally(() => clearTimeout(wait));
        this.message.textContent = "";
        await this.openOnly(one.frame.open.get(one.index));
      } catch (error) {
        return this.trouble(error);
      }
      if (mine !== this.turn || !this.byName.has(one.name)) return null;
    }
    this.layout(one.name, false, one.frame.open.has(one.index));
    this.choose(one.name);
    return null;
  }

  /** Replace the open block by the next or previous one of its equal blocks. */
  async step(one, by) {
    const member = (one.member + by + one.box.times) % one.box.times;
    await this.openBox(one.frame, one.index, `${one.name}*${member}`);
    this.layout(one.name, true);
    this.choose(one.name);
  }

  /** Show all blocks of a group of equal blocks, each closed. */
  async spread(one) {
    await this.openBox(one.frame, one.index, one.name);
    this.layout(one.name);
    this.choose(one.name);
  }

  closeAll() {
    this.root.open.clear();
    this.choose("");
    this.layout();
    this.begin();
  }

  choose(name, isAddressed = true) {
    this.selected = this.byName?.has(name) ? name : "";
    const one = this.byName?.get(this.selected);
    this.showCard(one);
    if (one) {
      const state = canOpen(one.box) ? (one.inner ? ", open" : ", closed") : "";
      this.status.textContent = `${kindText(one.box)} ${titleOf(one.box)}${one.box.kind === "node" ? ` ${one.box.label}` : ""}${state}`;
    } else this.status.textContent = "";
    if (isAddressed) this.go(`map=${encodeURIComponent(one?.box.path && one.box.kind === "node" ? one.box.path : this.selected || this.root.name)}`, true);
    this.redraw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.scene) return;
    const one = this.byName.get(this.selected);
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) this.pan(-arrow[0] * 80, -arrow[1] * 80);
    else if (arrow) this.walk(one, arrow);
    else if ((event.key === "Enter" || event.key === " ") && one) this.enter(one);
    else if (event.key === "Escape") {
      if (this.start) this.setStart(null);
      else if (this.route) this.light(null);
      else if (one && one.frame !== this.root) this.select([...this.scene.boxes].find((other) => other.inner === one.frame));
      else if (one) this.choose("");
      else return;
      event.stopPropagation();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "f" && one) this.fit(true, one);
    else if (event.key === "c") this.closeAll();
    else if (event.key === "h") this.turnAround();
    else if (event.key === "p" && one?.box.kind === "node") this.setPathEnd(one);
    else if (event.key === "a" && one && opensByMember(one.box)) this.spread(one);
    else if ((event.key === "[" || event.key === "]") && one?.member !== undefined) this.step(one, event.key === "[" ? -1 : 1);
    else return;
    event.preventDefault();
  }

  select(one) {
    if (!one) return;
    this.choose(one.name);
    this.reveal(one.name);
  }

  /** Select the nearest box in a direction; from a title down into its group. */
  walk(one, [dx, dy]) {
    const boxes = this.scene.boxes;
    if (!one) return this.select(boxes[0]);
    const isInto = one.inner && dy > 0;
    const near = boxes.filter((other) => other.frame === (isInto ? one.inner : one.frame) && other !== one);
    const [x, y] = isInto ? [one.x + one.width / 2, one.y] : [one.x + one.width / 2, one.y + one.height / 2];
    let [best, least] = [null, Infinity];
    for (const other of near) {
      const [ox, oy] = [other.x + other.width / 2 - x, other.y + other.height / 2 - y];
      const along = ox * dx + oy * dy;
      const far = along + 2 * Math.abs(ox * dy + oy * dx);
      if (along > 8 && far < least) [best, least] = [other, far];
    }
    // At the border of a group, continue outside of it.
    const around = boxes.find((other) => other.inner === one.frame);
    if (best) this.select(best);
    else if (around && dy < 0) this.select(around);
    else if (around) this.walk({ ...around, inner: null }, [dx, dy]);
    return null;
  }

  setPathEnd(one) {
    if (!this.start || this.start.path === one.box.path) return this.setStart(this.start ? null : one);
    const { path } = this.start;
    this.start = null;
    return this.light({ start: path, end: one.box.path });
  }

  setStart(one) {
    this.start = one && { name: one.name, path: one.box.path, label: one.box.label };
    this.showCard(this.byName.get(this.selected));
    this.redraw();
  }

  /** Highlight the path between two nodes in all open groups; null for none. */
  async light(route) {
    try {
      const nodes = route && (await ask("route", route)).nodes;
      this.route = route && { ...route, nodes };
      for (const frame of this.root.all()) {
        const { answer } = await this.load(frame.name);
        frame.answer.boxes.forEach((box, i) => (box.lit = answer.boxes[i].lit));
        frame.answer.edges.forEach((edge, i) => (edge.lit = answer.edges[i].lit));
      }
    } catch (error) {
      this.trouble(error);
    }
    this.layout("", true);
    this.choose(this.selected);
  }

  showCard(one) {
    const children = [...(one ? describe(this, one) : []), ...describePath(this)];
    this.card.replaceChildren(...children);
    this.card.hidden = !children.length;
    if (one?.box.kind === "node") this.addNode(one.box.path);
  }

  /** Add attributes, inputs and outputs of the selected node to the card, once it stays selected for a moment. */
  async addNode(path) {
    const mine = (this.cardNumber = (this.cardNumber ?? 0) + 1);
    await new Promise((resolve) => setTimeout(resolve, 120));
    if (mine !== this.cardNumber) return;
    const node = await ask("node", { path }).catch(() => null);
    const place = this.card.querySelector(".of-node");
    if (node && place && mine === this.cardNumber) place.replaceChildren(...describeNode(node));
  }

  /** Save the whole map as a picture. */
  async save(kind) {
    const { bounds } = this.scene;
    const margin = 24;
    const frame = { left: bounds.left - margin, top: bounds.top - margin, width: bounds.width + 2 * margin, height: bounds.height + 2 * margin };
    const view = { left: frame.left, top: frame.top, right: frame.left + frame.width, bottom: frame.top + frame.height, scale: 1 };
    let blob;
    if (kind === "svg") {
      const pen = new SvgPen();
      paint(pen, this.scene, view, this.colors);
      blob = new Blob([pen.document(frame, this.colors.ground)], { type: "image/svg+xml" });
    } else {
      const canvas = document.createElement("canvas");
      const scale = Math.min(2, Math.sqrt(MAX_PIXELS / (frame.width * frame.height)), 16_000 / Math.max(frame.width, frame.height));
      [canvas.width, canvas.height] = [Math.ceil(frame.width * scale), Math.ceil(frame.height * scale)];
      const context = canvas.getContext("2d");
      context.fillStyle = this.colors.ground;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.setTransform(scale, 0, 0, scale, -frame.left * scale, -frame.top * scale);
      paint(new CanvasPen(context), this.scene, { ...view, scale }, this.colors);
      blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    }
    const address = URL.createObjectURL(blob);
    html("a", { href: address, download: `map.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}

/** The groups to open for a group by its name: graph, graph/3*7, …, and the name of its box. */
function groupsAround(name) {
  const steps = name.split("/");
  const opened = steps.map((_, i) => steps.slice(0, i + 1).join("/"));
  const last = opened[opened.length - 1];
  const isMember = /\*\d+$/.test(last);
  if (opened.length > 1 && !isMember) opened.pop();
  return { opened, name: last.replace(/\*\d+$/, "") };
}

/** A scene between two others, for the animation: common boxes move, new boxes are at their final positions. */
function between(scene, before, old, t) {
  const boxes = scene.boxes.map((one) => {
    const was = old.get(one.name);
    if (!was) return one;
    return { ...one, x: mix(was.x, one.x, t), y: mix(was.y, one.y, t), width: mix(was.width, one.width, t), height: mix(was.height, one.height, t) };
  });
  const edges = new Map([...scene.edges].map(([frame, list]) => {
    const lines = before.edges.get(frame);
    return [frame, list.map((one, i) => {
      const points = lines?.[i].points;
      if (points?.length !== one.points.length) return one;
      return { ...one, points: one.points.map(([x, y], k) => [mix(points[k][0], x, t), mix(points[k][1], y, t)]) };
    })];
  }));
  return { ...scene, boxes, edges };
}
