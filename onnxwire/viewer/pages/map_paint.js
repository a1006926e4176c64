// Draws the map, by the same code on a canvas and as SVG. mapBox: a box of a scene, as `flatten` of map_scene.js returns it. box: a box
// of the server's answer, as `ModelMap.contents` of graph_map.py returns it.

import { countText, familyOf, nounText, sizeText } from "./api.js";
import { FONT, shorten, fitParts, placeLabels, widthOf } from "./map_text.js";

const LABEL_SIZE = 10; // font size in pixels of the types at edges
const MAX_TYPE_WIDTH = 190; // maximum width in pixels of a type at an edge
const MIN_FONT_PIXELS = 5; // smaller text is not drawn
const MAX_TYPED_EDGES = 40; // a group with more edges shows at most this number of types, and only at the selected box
// The variables of colors.css that the map uses.
const COLOR_NAMES = ["ground", "panel", "line", "text", "soft", "accent", "accent-ground", "hover", "mark", "edge", "math", "norm", "act", "move", "other", "added", "added-ground", "removed", "removed-ground", "changed", "changed-ground"];

/** Return the current colors of the page, light or dark. */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOR_NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Return a number of parameters as a short text: 4.2 M. */
export function shortCount(count) {
  if (count < 1000) return String(count);
  const power = Math.min(Math.floor(Math.log10(count) / 3), 4);
  const value = count / 1000 ** power;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${["k", "M", "G", "T"][power - 1]}`;
}

/** Return the title of a box. */
export const titleOf = (box) => {
  if (box.kind === "node") return box.op_type || "(no operator)";
  return box.label || box.kind;
};

/**
 * Return a line with the numbers of differing nodes of a group, and the numbers of nodes, parameters and bytes of the group. For several
 * equal blocks, the line has the numbers of nodes and parameters of each block, and no bytes.
 */
export function factsOf(box) {
  const blocks = blocksOf(box);
  const facts = [nounText(box.nodes / blocks, "node") + (blocks > 1 ? " per block" : "")];
  const parameters = Math.round(box.parameters / blocks);
  if (box.parameters) facts.push(`${shortCount(parameters)} ${parameters === 1 ? "param" : "params"}`);
  if (box.parameters && blocks === 1) facts.push(sizeText(box.bytes));
  if (markOf(box)) facts.unshift(marksText(box));
  return facts.join(" · ");
}

/** Return how a box differs from the compared model: "added" or "removed" if all its nodes are, "changed" for other differences, or "". */
export function markOf(box) {
  const marks = Object.keys(box.marks ?? {});
  if (!marks.length) return "";
  return marks.length === 1 && ["added", "removed"].includes(marks[0]) && box.marks[marks[0]] === (box.nodes ?? 1) ? marks[0] : "changed";
}

/** Return the numbers of nodes that differ from the compared model, by kind of difference, as a text. */
export const marksText = (box) => Object.entries(box.marks ?? {}).map(([mark, count]) => `${countText(count)} ${mark}`).join(", ");

/** Return the number of equal blocks that a box represents; 1 for other boxes, including those of equal nodes. */
const blocksOf = (box) => (box.times && box.member_kind !== "node" ? box.times : 1);

/** Return the most frequent operators of a group, or of each of several equal blocks, with the numbers of their nodes. */
export function operatorsOf(box) {
  const blocks = blocksOf(box);
  return box.operators.map(([name, count]) => (count > blocks ? `${name} ${countText(count / blocks)}` : name)).join(", ");
}

/** Draws on a canvas; SvgPen also has these methods. */
export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, radius, fill, stroke, lineWidth = 1) {
    const { context } = this;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.lineWidth = lineWidth;
      context.strokeStyle = stroke;
      context.stroke();
    }
  }

  /** Draw an edge through points. toRight: as for `trace`. */
  curve(points, color, lineWidth, toRight) {
    const { context } = this;
    context.beginPath();
    trace(points, toRight, (x, y) => context.moveTo(x, y), (x, y) => context.lineTo(x, y), (...coordinates) => context.bezierCurveTo(...coordinates));
    context.strokeStyle = color;
    context.lineWidth = lineWidth;
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
    // Set the font only if it changes, since setting it takes longer than drawing a letter.
    if (this.font !== font) context.font = this.font = font;
    context.textAlign = anchor === "middle" ? "center" : anchor;
    context.fillStyle = color;
    context.fillText(text, x, y);
  }
}

// Escape the characters of markup, and replace the characters that XML does not allow.
const escapeText = (text) => text.replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter])
  // eslint-disable-next-line no-control-regex
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, "\ufffd");
// One digit after the point is enough for coordinates, and keeps the file small.
const round = (number) => Math.round(number * 10) / 10;

/** Collects the elements of an SVG document. */
export class SvgPen {
  constructor() {
    this.parts = [];
  }

  rect(x, y, width, height, radius, fill, stroke, lineWidth = 1) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="${radius}" fill="${fill || "none"}"${stroke ? ` stroke="${stroke}" stroke-width="${lineWidth}"` : ""}/>`);
  }

  curve(points, color, lineWidth, toRight) {
    let path = "";
    trace(points, toRight, (x, y) => (path += `M${round(x)} ${round(y)}`), (x, y) => (path += `L${round(x)} ${round(y)}`), (...coordinates) => (path += `C${coordinates.map(round).join(" ")}`));
    this.parts.push(`<path d="${path}" fill="none" stroke="${color}" stroke-width="${lineWidth}"/>`);
  }

  polygon(points, color) {
    this.parts.push(`<polygon points="${points.map((point) => point.map(round).join(",")).join(" ")}" fill="${color}"/>`);
  }

  text(text, x, y, size, color, { bold = false, anchor = "start" } = {}) {
    this.parts.push(`<text x="${round(x)}" y="${round(y)}" font-size="${size}"${bold ? ' font-weight="600"' : ""} text-anchor="${anchor}" fill="${color}">${escapeText(text)}</text>`);
  }

  /** Return the picture with a background as an SVG document. */
  document({ left, top, width, height }, ground) {
    const box = [left, top, width, height].map(round).join(" ");
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${round(width)}" height="${round(height)}" font-family='${FONT}'><rect x="${round(left)}" y="${round(top)}" width="${round(width)}" height="${round(height)}" fill="${ground}"/>${this.parts.join("\n")}</svg>\n`;
  }
}

/**
 * Draw a curve through points. At each point it is vertical; with toRight, horizontal. move, line, bend: draw a part
 * of the curve, with the arguments of the canvas methods moveTo, lineTo and bezierCurveTo.
 */
function trace(points, toRight, move, line, bend) {
  move(...points[0]);
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    if (Math.abs(toRight ? y0 - y1 : x0 - x1) < 0.5) line(x1, y1);
    else if (toRight) bend((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
    else bend(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
  }
}

/** Return the types of an edge's values as a short text. */
function typesText({ edge }) {
  if (!edge.types.length) return "";
  const suffix = edge.count > 1 ? ` ×${countText(edge.count)}` : edge.types.length > 1 ? " …" : "";
  return shorten(edge.types[0], MAX_TYPE_WIDTH, LABEL_SIZE, { keep: "both" }) + suffix;
}

/** Draw the arrow at the end of an edge. */
function drawArrow(pen, points, color, toRight) {
  const [x, y] = points[points.length - 1];
  const previous = points[points.length - 2];
  if (toRight) {
    const direction = x >= previous[0] ? 1 : -1;
    pen.polygon([[x - 6 * direction, y - 3.5], [x - 6 * direction, y + 3.5], [x, y]], color);
  } else {
    const direction = y >= previous[1] ? 1 : -1;
    pen.polygon([[x - 3.5, y - 6 * direction], [x + 3.5, y - 6 * direction], [x, y]], color);
  }
}

/**
 * Draw a scene, as `flatten` of map_scene.js returns it. view: left, top, right, bottom of the visible part, and scale.
 * colors: the result of `readColors`. selected: the name of the selected box. start: the name of the box at which a route begins. alpha: a
 * function from the name of a box or frame to its opacity, while new boxes appear.
 */
export function paint(pen, scene, view, colors, { selected, start, alpha } = {}) {
  const isVisible = (x, y, width, height) => x < view.right && x + width > view.left && y < view.bottom && y + height > view.top;
  const minLineWidth = 1 / Math.min(view.scale, 1);
  const context = pen.context;
  const isTiny = view.scale < 0.12; // arrows and labels are too small to see
  const endsAtSelection = ({ from, to }) => selected && (from === selected || to === selected);
  const fade = (name) => {
    if (context && alpha) context.globalAlpha = alpha(name);
  };
  const drawEdges = (frame) => {
    const edges = scene.edges.get(frame);
    const selectedEdges = [];
    fade(frame.name);
    for (const mapEdge of edges) {
      const { points, edge } = mapEdge;
      const [xValues, yValues] = [points.map(([x]) => x), points.map(([, y]) => y)];
      if (Math.min(...yValues) > view.bottom || Math.max(...yValues) < view.top || Math.min(...xValues) > view.right || Math.max(...xValues) < view.left) continue;
      const isSelected = endsAtSelection(mapEdge);
      if (isSelected) selectedEdges.push(mapEdge);
      const color = edge.lit || isSelected ? colors.accent : colors.edge;
      const lineWidth = edge.lit ? 3 : isSelected ? 2 : Math.min(1 + Math.log2(edge.count) * 0.3, 3);
      pen.curve(points, color, lineWidth * (edge.lit || isSelected ? minLineWidth : 1), frame.toRight);
      // An edge to the outside ends at the border of the frame, without an arrow.
      if (!isTiny && !mapEdge.to.includes(":exit")) drawArrow(pen, points, color, frame.toRight);
    }
    if (isTiny || LABEL_SIZE * view.scale < MIN_FONT_PIXELS + 1) return;
    // Labels are placed once for each layout. Labels at the selected box are shown even if there is no free space.
    frame.labels ??= placeLabels(frame, edges, edges.length <= MAX_TYPED_EDGES ? edges : [], typesText);
    if (selectedEdges.length && frame.selectionLabels?.selected !== selected) {
      const unlabelledEdges = selectedEdges.filter((mapEdge) => !frame.labels.some((label) => label.mapEdge.edge === mapEdge.edge)).slice(0, MAX_TYPED_EDGES);
      // With many edges there is no free space for labels anyway, so only the edges that get labels are obstacles.
      const obstacles = edges.length <= MAX_TYPED_EDGES ? edges : unlabelledEdges;
      frame.selectionLabels = { selected, labels: placeLabels(frame, obstacles, unlabelledEdges, typesText, true) };
    }
    const selectionLabels = selectedEdges.length ? frame.selectionLabels.labels : [];
    for (const label of [...frame.labels, ...selectionLabels]) {
      const { mapEdge, text, x, y, width } = label;
      if (!isVisible(x, y - LABEL_SIZE, width, LABEL_SIZE + 2)) continue;
      if (selectionLabels.includes(label)) pen.rect(x - 2, y - 9, width + 4, 12, 2, colors.ground);
      pen.text(text, x, y, LABEL_SIZE, endsAtSelection(mapEdge) ? colors.accent : colors.soft);
    }
  };
  // Draw edges over their frame, and boxes over edges.
  drawEdges(scene.root);
  for (const mapBox of scene.boxes) {
    if (!isVisible(mapBox.x - 12, mapBox.y - 12, mapBox.width + 24, mapBox.height + 24)) continue;
    fade(mapBox.name);
    if (mapBox.innerFrame) {
      drawFrame(pen, mapBox, view, colors, selected === mapBox.name, minLineWidth);
      drawEdges(mapBox.innerFrame);
    } else drawBox(pen, mapBox, view, colors, selected === mapBox.name, start === mapBox.name, minLineWidth);
  }
  if (context) context.globalAlpha = 1;
}

/** Draw the background and the title of an open group. Sets mapBox.stepAt: x, y and width of the arrows to other blocks. */
function drawFrame(pen, mapBox, view, colors, isSelected, minLineWidth) {
  const { x, y, width, height, box, depth } = mapBox;
  pen.rect(x, y, width, height, 9, depth % 2 ? colors.panel : colors.ground, isSelected ? colors.accent : box.lit ? colors.accent : colors.line, (isSelected ? 2.2 : 1.4) * minLineWidth);
  const size = 13;
  if (size * view.scale < MIN_FONT_PIXELS) return;
  // If the left end of the group is outside of the view, draw the title at the left end of the view.
  const titleX = pen.context ? Math.max(x, Math.min(view.left, x + width - 280)) : x;
  pen.text("▾", titleX + 12, y + 21, 13, colors.soft);
  const step = mapBox.member === undefined ? "" : `‹  ${countText(mapBox.member + 1)} of ${countText(box.times)}  ›`;
  const stepWidth = step ? widthOf(step, 12, true) : 0;
  // The title may use the width beside the arrows. Without arrows, facts follow if there is space for them.
  const title = shorten(mapBox.title ?? titleOf(box), x + width - titleX - 48 - stepWidth, size, { bold: true, keep: "both" });
  pen.text(title, titleX + 28, y + 21, size, colors.text, { bold: true });
  const factsX = titleX + 42 + widthOf(title, size, true);
  const factsWidth = x + width - factsX - 8;
  if (step) {
    pen.text(step, factsX, y + 21, 12, colors.accent, { bold: true });
    mapBox.stepAt = [factsX - 4, y + 6, stepWidth + 8];
  } else if (factsWidth > 50) pen.text(fitParts(factsOf(box).split(" · "), factsWidth, 11, " · "), factsX, y + 21, 11, colors.soft);
}

/** Draw a closed box. */
function drawBox(pen, mapBox, view, colors, isSelected, isStart, minLineWidth) {
  const { x, y, width, height, box } = mapBox;
  const isValue = box.kind === "input" || box.kind === "output";
  const isNode = box.kind === "node";
  const isGroup = !isValue && !isNode;
  const mark = markOf(box);
  const fill = isSelected || isStart ? colors["accent-ground"] : box.lit ? colors.mark : mark ? colors[`${mark}-ground`] : isValue ? colors.hover : colors.panel;
  const stroke = isSelected || isStart || box.lit ? colors.accent : mark ? colors[mark] : isValue ? null : colors.line;
  const borderWidth = (isSelected ? 2.2 : 1.2) * minLineWidth;
  const radius = view.scale < 0.25 ? 0 : isValue ? height / 2 : 7;
  if (box.times && view.scale > 0.2) {
    pen.rect(x + 8, y + 8, width, height, radius, colors.panel, colors.line, borderWidth);
    pen.rect(x + 4, y + 4, width, height, radius, colors.panel, colors.line, borderWidth);
  }
  pen.rect(x, y, width, height, radius, fill, stroke, borderWidth);
  const family = isNode ? colors[familyOf(box.op_type)] : colors.accent;
  if (13 * view.scale < MIN_FONT_PIXELS) {
    // The box is too small for text: its color shows the kind of operator.
    if (!isValue) pen.rect(x, y, Math.min(width, 26), height, 0, family);
    return;
  }
  const centerX = x + width / 2;
  const hasSmallText = 11 * view.scale >= MIN_FONT_PIXELS;
  if (isNode) {
    const lines = hasSmallText ? box.lines : [];
    const name = hasSmallText && box.short ? [shorten(box.short, width - 14, 11, { keep: "end" })] : [];
    // A title without other lines is vertically centered.
    const top = lines.length || name.length ? y + 18 : y + height / 2 + 5;
    pen.text(shorten(box.op_type || "(no operator)", width - (box.opens ? 40 : 14), 13, { bold: true }), centerX, top, 13, family, { bold: true, anchor: "middle" });
    [...name, ...lines.map((line) => shorten(line, width - 14, 11))].forEach((text, i) =>
      pen.text(text, centerX, top + 15 * (i + 1), 11, i < name.length ? colors.soft : colors.text, { anchor: "middle" }));
    if (box.opens) pen.text("▸", x + width - 15, y + 18, 12, colors.soft);
  } else if (isValue) {
    pen.text(shorten(box.label || box.kind, width - 20, 12, { keep: "end" }), centerX, y + height / 2 + 4, 12, colors.text, { anchor: "middle" });
  } else if (isGroup) {
    const times = box.times ? `× ${countText(box.times)}` : "";
    pen.text("▸", x + 11, y + 20, 12, colors.soft);
    pen.text(shorten(titleOf(box), width - 42 - widthOf(times, 13, true), 13, { bold: true, keep: "both" }), x + 25, y + 20, 13, colors.text, { bold: true });
    if (times) pen.text(times, x + width - 10, y + 20, 13, colors.accent, { bold: true, anchor: "end" });
    if (hasSmallText) {
      pen.text(fitParts(factsOf(box).split(" · "), width - 22, 11, " · "), x + 12, y + 37, 11, colors.text);
      pen.text(fitParts(operatorsOf(box).split(", "), width - 22, 11), x + 12, y + 52, 11, colors.soft);
    }
  }
}
