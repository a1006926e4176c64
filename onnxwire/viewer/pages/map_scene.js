// What is open on the map, and where it is drawn.

import { layOut } from "./layout.js";

export const TITLE = 34; // height of the title of an open group
const PADDING = 20; // within an open group
const NARROWEST = 300; // open group, for its title
const SIZES = { node: [172, 42], input: [172, 28], output: [172, 28], other: [212, 62] };
const BOUNDARY = [2, 2]; // where edges from outside come in, or go out

/** An open group: what is in it, where that is when all in it is closed, and which of it is open. */
export class Frame {
  constructor(name, answer, base) {
    Object.assign(this, { name, answer, base });
    this.open = new Map(); // by number of the box
    this.rows = rowsOf(base.nodes);
    this.bounds = boundsOf(base.nodes);
  }

  /** All frames, this one first. */
  *all() {
    yield this;
    for (const frame of this.open.values()) yield* frame.all();
  }
}

export const sizeOf = (box) => SIZES[box.kind] ?? SIZES.other;

/** Make the frame of what the server says of a group. */
export async function makeFrame(name, answer) {
  const nodes = answer.boxes.map((box) => [...sizeOf(box)]);
  const ends = { in: -1, out: -1 };
  const edges = answer.edges.map((edge) => {
    if (edge.from === null && ends.in < 0) ends.in = nodes.push([...BOUNDARY]) - 1;
    if (edge.to === null && ends.out < 0) ends.out = nodes.push([...BOUNDARY]) - 1;
    return [edge.from ?? ends.in, edge.to ?? ends.out];
  });
  const isChain = edges.length === 0 && nodes.length > 1;
  const done = isChain ? grid(nodes) : await layOut(nodes, edges);
  const base = {
    nodes: nodes.map(([width, height], i) => ({ x: done.nodes[i][0], y: done.nodes[i][1], width, height })),
    edges: done.edges,
    ends: edges,
    entry: ends.in,
    exit: ends.out,
  };
  return new Frame(name, answer, base);
}

/** Boxes that nothing connects, in rows. */
function grid(nodes) {
  const columns = Math.ceil(Math.sqrt(nodes.length / 2.5));
  return { nodes: nodes.map((_, i) => [(i % columns) * 236, Math.floor(i / columns) * 84]), edges: [] };
}

function boundsOf(nodes) {
  const left = Math.min(...nodes.map((node) => node.x - node.width / 2), 0);
  const right = Math.max(...nodes.map((node) => node.x + node.width / 2), left + 60);
  const top = Math.min(...nodes.map((node) => node.y - node.height / 2));
  const bottom = Math.max(...nodes.map((node) => node.y + node.height / 2));
  return nodes.length ? { left, right, top, bottom } : { left: 0, right: 160, top: 0, bottom: 20 };
}

function rowsOf(nodes) {
  const rows = new Map();
  nodes.forEach((node, i) => {
    const y = Math.round(node.y);
    if (!rows.has(y)) rows.set(y, { y: node.y, height: 0, members: [] });
    const row = rows.get(y);
    row.height = Math.max(row.height, node.height);
    row.members.push(i);
  });
  for (const row of rows.values()) row.members.sort((a, b) => nodes[a].x - nodes[b].x);
  return [...rows.values()].sort((a, b) => a.y - b.y);
}

/**
 * Where everything in a frame is while some of it is open: rows become higher, and move what is below down; in a row
 * the others move aside. What was laid out is never laid out again, so all else stays where it was.
 * Gives the frame's size, and fills frame.at (middles and sizes) and frame.lines (points of edges), around (0, top).
 */
export function measure(frame) {
  const { nodes, edges, ends, entry, exit } = frame.base;
  const { left, right, top, bottom } = frame.bounds;
  const middle = (left + right) / 2;
  const sizes = nodes.map((node, i) => {
    const inner = frame.open.get(i);
    return inner ? measure(inner) : node;
  });
  const at = new Array(nodes.length);
  let shift = 0;
  let half = (right - left) / 2;
  for (const row of frame.rows) {
    const wide = row.members.reduce((sum, i) => sum + sizes[i].width - nodes[i].width, 0);
    row.extra = Math.max(...row.members.map((i) => sizes[i].height - nodes[i].height));
    row.extra = Math.max(row.extra, 0);
    row.shift = shift;
    row.steps = []; // [right end in the layout, how far what is right of it moves]
    let passed = -wide / 2;
    for (const i of row.members) {
      const more = sizes[i].width - nodes[i].width;
      const x = nodes[i].x + passed + more / 2 - middle;
      at[i] = { x, y: nodes[i].y + shift + row.extra / 2 - top, width: sizes[i].width, height: sizes[i].height };
      row.steps.push([nodes[i].x, passed]);
      passed += more;
      half = Math.max(half, Math.abs(x) + sizes[i].width / 2);
    }
    row.last = passed;
    shift += row.extra;
  }
  frame.at = at;
  frame.width = Math.max(2 * (half + PADDING), NARROWEST);
  frame.height = bottom - top + shift + TITLE + PADDING;
  frame.lines = edges.map((points, i) => {
    const [from, to] = ends[i];
    return lineOf(frame, points, at[from], at[to], middle, top, from === entry, to === exit);
  });
  return frame;
}

function lineOf(frame, points, from, to, middle, top, isEntry, isExit) {
  const isBack = from.y > to.y;
  // From outside an edge comes in below the title, and goes out at the bottom.
  const line = [isEntry ? [0, -4] : [from.x, from.y + ((isBack ? -1 : 1) * from.height) / 2]];
  for (const [x, y] of points.slice(1, -1)) line.push(...passing(frame.rows, x, y, middle, top, isBack));
  line.push(isExit ? [0, frame.height - TITLE - 2] : [to.x, to.y + ((isBack ? 1 : -1) * to.height) / 2]);
  return line;
}

/** Where an edge passes a row, straight from its top to its bottom; nothing for a point between rows. */
function passing(rows, x, y, middle, top, isBack) {
  const row = rows.find((one) => Math.abs(y - one.y) <= one.height / 2);
  if (!row) return [];
  const step = row.steps.find(([right]) => x < right);
  const now = x + (step ? step[1] : row.last) - middle;
  const ends = [[now, row.y - row.height / 2 + row.shift - top], [now, row.y + row.height / 2 + row.shift + row.extra - top]];
  return isBack ? ends.reverse() : ends;
}

const boxName = (frame, i) => {
  const { number, kind } = frame.answer.boxes[i];
  return number === null ? `${frame.name}:${kind}${i}` : `${frame.name}/${number}`;
};

function middleOf(points) {
  const i = Math.floor(points.length / 2);
  const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
  return [(x0 + x1) / 2, (y0 + y1) / 2];
}

/**
 * All boxes and edges on the map, with the coordinates that they have there, those around others first.
 * A box: name, box (what the server says), frame (the one that it is in), inner (its own frame, where it is open), depth,
 * x, y (left, top), width, height. Edges are listed by frame: edge, points, middle, from and to (names of boxes).
 */
export function flatten(root) {
  measure(root);
  const boxes = [];
  const edges = new Map(); // by frame
  const visit = (frame, x, y, depth) => {
    frame.x = x;
    frame.y = y;
    const nameOf = (i) => (i === null ? null : boxName(frame, i));
    edges.set(frame, frame.lines.map((line, i) => {
      const edge = frame.answer.edges[i];
      const points = line.map(([px, py]) => [px + x, py + y]);
      return { edge, points, middle: middleOf(points), from: nameOf(edge.from), to: nameOf(edge.to) };
    }));
    frame.answer.boxes.forEach((box, i) => {
      const spot = frame.at[i];
      const inner = frame.open.get(i);
      const one = {
        name: boxName(frame, i),
        box, frame, inner, depth, index: i,
        x: x + spot.x - spot.width / 2,
        y: y + spot.y - spot.height / 2,
        width: spot.width,
        height: spot.height,
      };
      boxes.push(one);
      if (inner) visit(inner, x + spot.x, one.y + TITLE, depth + 1);
    });
  };
  visit(root, 0, 0, 0);
  return { root, boxes, edges, bounds: { left: -root.width / 2, top: -PADDING, width: root.width, height: root.height - TITLE + PADDING } };
}
