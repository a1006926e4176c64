// Drawing of the map, by the same code for a canvas and for SVG.

import { countText, familyOf, nounText, sizeText } from "./api.js";
import { TITLE } from "./map_scene.js";
import { FONT, cut, fitParts, placeLabels, widthOf } from "./map_text.js";

const LABEL_SIZE = 10; // font size of the types at edges
const MAX_TYPE_WIDTH = 190;
const MIN_FONT_PIXELS = 5; // smaller text is not drawn
const MAX_TYPED_EDGES = 40; // a group with more edges shows types only at the selected box
const NAMES = ["ground", "panel", "line", "text", "soft", "accent", "accent-ground", "hover", "mark", "edge", "math", "norm", "act", "move", "other", "added", "added-ground", "removed", "removed-ground", "changed", "changed-ground"];

/** The current colors of the page, light or dark. */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** A number of parameters: 4.2 M. */
export function shortCount(count) {
  if (count < 1000) return String(count);
  const power = Math.min(Math.floor(Math.log10(count) / 3), 4);
  const value = count / 1000 ** power;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${["k", "M", "G", "T"][power - 1]}`;
}

export const titleOf = (box) => {
  if (box.kind === "node") return box.op_type || "(no operator)";
  return box.label || box.kind;
};

/** The size of a group, or of each of several equal blocks, in one line. */
export function factsOf(box) {
  const blocks = blocksOf(box);
  const facts = [nounText(box.nodes / blocks, "node") + (blocks > 1 ? " per block" : "")];
  if (box.parameters) facts.push(`${shortCount(Math.round(box.parameters / blocks))} params`);
  if (box.parameters && blocks === 1) facts.push(sizeText(box.bytes));
  if (markOf(box)) facts.unshift(marksText(box));
  return facts.join(" · ");
}

/** The kind of difference between the nodes of a box and the compared model: added, removed, changed, or "". */
export function markOf(box) {
  const marks = Object.keys(box.marks ?? {});
  if (!marks.length) return "";
  return marks.length === 1 && ["added", "removed"].includes(marks[0]) && box.marks[marks[0]] === (box.nodes ?? 1) ? marks[0] : "changed";
}

/** The numbers of nodes that differ, in words. */
export const marksText = (box) => Object.entries(box.marks ?? {}).map(([mark, count]) => `${countText(count)} ${mark}`).join(", ");

const blocksOf = (box) => (box.times && box.of !== "node" ? box.times : 1);

/** The operators of a group, or of each of several equal blocks, with their numbers. */
export function operatorsOf(box) {
  const blocks = blocksOf(box);
  return box.operators.map(([name, count]) => (count > blocks ? `${name} ${countText(count / blocks)}` : name)).join(", ");
}

export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, radius, fill, stroke, line = 1) {
    const { context } = this;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.lineWidth = line;
      context.strokeStyle = stroke;
      context.stroke();
    }
  }

  curve(points, color, line, toRight) {
    const { context } = this;
    context.beginPath();
    trace(points, toRight, (x, y) => context.moveTo(x, y), (x, y) => context.lineTo(x, y), (...c) => context.bezierCurveTo(...c));
    context.strokeStyle = color;
    context.lineWidth = line;
    context.stroke();
  }

  polygon(points, color) {
    const { context } = this;
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.fillStyle = color;
    context.fill();
  }

  text(text, x, y, size, color, { bold = false, anchor = "start" } = {}) {
    const { context } = this;
    const font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    // Setting the font costs more than drawing a letter.
    if (this.font !== font) context.font = this.font = font;
    context.textAlign = anchor === "middle" ? "center" : anchor;
    context.fillStyle = color;
    context.fillText(text, x, y);
  }
}

const escapeText = (text) => text.replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter])
  // eslint-disable-next-line no-control-regex
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, "\ufffd");
const round = (number) => Math.round(number * 10) / 10;

export class SvgPen {
  constructor() {
    this.parts = [];
  }

  rect(x, y, width, height, radius, fill, stroke, line = 1) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="${radius}" fill="${fill || "none"}"${stroke ? ` stroke="${stroke}" stroke-width="${line}"` : ""}/>`);
  }

  curve(points, color, line, toRight) {
    let path = "";
    trace(points, toRight, (x, y) => (path += `M${round(x)} ${round(y)}`), (x, y) => (path += `L${round(x)} ${round(y)}`), (...c) => (path += `C${c.map(round).join(" ")}`));
    this.parts.push(`<path d="${path}" fill="none" stroke="${color}" stroke-width="${line}"/>`);
  }

  polygon(points, color) {
    this.parts.push(`<polygon points="${points.map((point) => point.map(round).join(",")).join(" ")}" fill="${color}"/>`);
  }

  text(text, x, y, size, color, { bold = false, anchor = "start" } = {}) {
    this.parts.push(`<text x="${round(x)}" y="${round(y)}" font-size="${size}"${bold ? ' font-weight="600"' : ""} text-anchor="${anchor}" fill="${color}">${escapeText(text)}</text>`);
  }

  /** The whole picture with a background. */
  document({ left, top, width, height }, ground) {
    const box = [left, top, width, height].map(round).join(" ");
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${round(width)}" height="${round(height)}" font-family='${FONT}'><rect x="${round(left)}" y="${round(top)}" width="${round(width)}" height="${round(height)}" fill="${ground}"/>${this.parts.join("\n")}</svg>\n`;
  }
}

/** Draw a line from point to point that is vertical at each point, or horizontal. */
function trace(points, toRight, move, line, bend) {
  move(...points[0]);
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    if (Math.abs(toRight ? y0 - y1 : x0 - x1) < 0.5) line(x1, y1);
    else if (toRight) bend((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
    else bend(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
  }
}

/** The types of an edge's values, in short. */
function typesText({ edge }) {
  if (!edge.types.length) return "";
  const more = edge.count > 1 ? ` ×${countText(edge.count)}` : edge.types.length > 1 ? " …" : "";
  return cut(edge.types[0], MAX_TYPE_WIDTH, LABEL_SIZE, { keep: "both" }) + more;
}

function drawArrow(pen, points, color, toRight) {
  const [x, y] = points[points.length - 1];
  const before = points[points.length - 2];
  if (toRight) {
    const on = x >= before[0] ? 1 : -1;
    pen.polygon([[x - 6 * on, y - 3.5], [x - 6 * on, y + 3.5], [x, y]], color);
  } else {
    const on = y >= before[1] ? 1 : -1;
    pen.polygon([[x - 3.5, y - 6 * on], [x + 3.5, y - 6 * on], [x, y]], color);
  }
}

/**
 * Draw a scene of `flatten`. view: left, top, right, bottom of the visible part, and scale. selected, start: names of
 * boxes. alpha: a function from a name to an opacity, for boxes that appear.
 */
export function paint(pen, scene, view, colors, { selected, start, alpha } = {}) {
  const sees = (x, y, width, height) => x < view.right && x + width > view.left && y < view.bottom && y + height > view.top;
  const thin = 1 / Math.min(view.scale, 1);
  const context = pen.context;
  const isTiny = view.scale < 0.12;
  const fade = (name) => {
    if (context && alpha) context.globalAlpha = alpha(name);
  };
  const drawEdges = (frame) => {
    const edges = scene.edges.get(frame);
    const near = [];
    fade(frame.name);
    for (const one of edges) {
      const { points, edge } = one;
      const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
      if (Math.min(...ys) > view.bottom || Math.max(...ys) < view.top || Math.min(...xs) > view.right || Math.max(...xs) < view.left) continue;
      const isNear = selected && (one.from === selected || one.to === selected);
      if (isNear) near.push(one);
      const color = edge.lit || isNear ? colors.accent : colors.edge;
      const line = edge.lit ? 3 : isNear ? 2 : Math.min(1 + Math.log2(edge.count) * 0.3, 3);
      pen.curve(points, color, line * (edge.lit || isNear ? thin : 1), frame.toRight);
      if (!isTiny && !one.to.includes(":exit")) drawArrow(pen, points, color, frame.toRight);
    }
    if (isTiny || LABEL_SIZE * view.scale < MIN_FONT_PIXELS + 1) return;
    // Labels are placed once for each layout. Labels of the selection are shown even if there is no free space.
    frame.labels ??= placeLabels(frame, edges, edges.length <= MAX_TYPED_EDGES ? edges : [], typesText);
    if (near.length && frame.nearLabels?.selected !== selected) {
      const missing = near.filter((one) => !frame.labels.some((label) => label.one.edge === one.edge)).slice(0, MAX_TYPED_EDGES);
      // With more edges there is no free space for labels.
      const others = edges.length <= MAX_TYPED_EDGES ? edges : missing;
      frame.nearLabels = { selected, labels: placeLabels(frame, others, missing, typesText, true) };
    }
    const forced = near.length ? frame.nearLabels.labels : [];
    for (const label of [...frame.labels, ...forced]) {
      const { one, text, x, y, width } = label;
      if (!sees(x, y - LABEL_SIZE, width, LABEL_SIZE + 2)) continue;
      const isNear = selected && (one.from === selected || one.to === selected);
      if (forced.includes(label)) pen.rect(x - 2, y - 9, width + 4, 12, 2, colors.ground);
      pen.text(text, x, y, LABEL_SIZE, isNear ? colors.accent : colors.soft);
    }
  };
  // Edges are drawn over their frame, and boxes over edges.
  drawEdges(scene.root);
  for (const one of scene.boxes) {
    if (!sees(one.x - 12, one.y - 12, one.width + 24, one.height + 24)) continue;
    fade(one.name);
    if (one.inner) {
      drawFrame(pen, one, view, colors, selected === one.name, thin);
      drawEdges(one.inner);
    } else drawBox(pen, one, view, colors, selected === one.name, start === one.name, thin);
  }
  if (context) context.globalAlpha = 1;
}

function drawFrame(pen, one, view, colors, isSelected, thin) {
  const { x, y, width, height, box, depth } = one;
  pen.rect(x, y, width, height, 9, depth % 2 ? colors.panel : colors.ground, isSelected ? colors.accent : box.lit ? colors.accent : colors.line, (isSelected ? 2.2 : 1.4) * thin);
  const size = 13;
  if (size * view.scale < MIN_FONT_PIXELS) return;
  // The title stays visible as long as a part of its group is.
  const left = pen.context ? Math.max(x, Math.min(view.left, x + width - 280)) : x;
  pen.text("▾", left + 12, y + 21, 13, colors.soft);
  const step = one.member === undefined ? "" : `‹  ${countText(one.member + 1)} of ${countText(box.times)}  ›`;
  const wide = step ? widthOf(step, 12, true) : 0;
  // The title has all the width that the arrows leave; facts follow if there is room for them.
  const title = cut(one.title ?? titleOf(box), x + width - left - 48 - wide, size, { bold: true, keep: "both" });
  pen.text(title, left + 28, y + 21, size, colors.text, { bold: true });
  const at = left + 42 + widthOf(title, size, true);
  const room = x + width - at - 8;
  if (step) {
    pen.text(step, at, y + 21, 12, colors.accent, { bold: true });
    one.stepAt = [at - 4, y + 6, wide + 8];
  } else if (room > 50) pen.text(fitParts(factsOf(box).split(" · "), room, 11, " · "), at, y + 21, 11, colors.soft);
}

function drawBox(pen, one, view, colors, isSelected, isStart, thin) {
  const { x, y, width, height, box } = one;
  const isValue = box.kind === "input" || box.kind === "output";
  const isNode = box.kind === "node";
  const isGroup = !isValue && !isNode;
  const mark = markOf(box);
  const fill = isSelected || isStart ? colors["accent-ground"] : box.lit ? colors.mark : mark ? colors[`${mark}-ground`] : isValue ? colors.hover : colors.panel;
  const stroke = isSelected || isStart || box.lit ? colors.accent : mark ? colors[mark] : isValue ? null : colors.line;
  const line = (isSelected ? 2.2 : 1.2) * thin;
  const radius = view.scale < 0.25 ? 0 : isValue ? height / 2 : 7;
  if (box.times && view.scale > 0.2) {
    pen.rect(x + 8, y + 8, width, height, radius, colors.panel, colors.line, line);
    pen.rect(x + 4, y + 4, width, height, radius, colors.panel, colors.line, line);
  }
  pen.rect(x, y, width, height, radius, fill, stroke, line);
  const family = isNode ? colors[familyOf(box.op_type)] : colors.accent;
  if (13 * view.scale < MIN_FONT_PIXELS) {
    // Too small for text: the color shows the kind.
    if (!isValue) pen.rect(x, y, Math.min(width, 26), height, 0, family);
    return;
  }
  const middle = x + width / 2;
  const hasSmall = 11 * view.scale >= MIN_FONT_PIXELS;
  if (isNode) {
    const lines = hasSmall ? box.lines : [];
    const name = hasSmall && box.short ? [cut(box.short, width - 14, 11, { keep: "end" })] : [];
    // A title without further lines is in the middle of the box.
    const top = lines.length || name.length ? y + 18 : y + height / 2 + 5;
    pen.text(cut(box.op_type || "(no operator)", width - (box.opens ? 40 : 14), 13, { bold: true }), middle, top, 13, family, { bold: true, anchor: "middle" });
    [...name, ...lines.map((line) => cut(line, width - 14, 11))].forEach((text, i) =>
      pen.text(text, middle, top + 15 * (i + 1), 11, i < name.length ? colors.soft : colors.text, { anchor: "middle" }));
    if (box.opens) pen.text("▸", x + width - 15, y + 18, 12, colors.soft);
  } else if (isValue) {
    pen.text(cut(box.label || box.kind, width - 20, 12, { keep: "end" }), middle, y + height / 2 + 4, 12, colors.text, { anchor: "middle" });
  } else if (isGroup) {
    const times = box.times ? `× ${countText(box.times)}` : "";
    pen.text("▸", x + 11, y + 20, 12, colors.soft);
    pen.text(cut(titleOf(box), width - 42 - widthOf(times, 13, true), 13, { bold: true, keep: "both" }), x + 25, y + 20, 13, colors.text, { bold: true });
    if (times) pen.text(times, x + width - 10, y + 20, 13, colors.accent, { bold: true, anchor: "end" });
    if (hasSmall) {
      pen.text(fitParts(factsOf(box).split(" · "), width - 22, 11, " · "), x + 12, y + 37, 11, colors.text);
      pen.text(fitParts(operatorsOf(box).split(", "), width - 22, 11), x + 12, y + 52, 11, colors.soft);
    }
  }
}
