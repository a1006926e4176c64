// The open groups of the map, and the coordinates of everything in them.

export const TITLE = 34; // height of the title of an open group
const PADDING = 20; // margin within an open group
const MIN_WIDTH = 300; // of an open group, for its title

/** An open group: the server's answer, which is laid out with all boxes closed, and the open boxes. */
export class Frame {
  constructor(name, answer) {
    Object.assign(this, { name, answer });
    this.open = new Map(); // by index of the box
    this.rows = answer.spans.map(([top, bottom]) => ({ top, bottom, members: [] }));
    answer.boxes.forEach((box, i) => this.rows[box.row].members.push(i));
    for (const row of this.rows) row.members.sort((a, b) => answer.boxes[a].x - answer.boxes[b].x);
    const left = Math.min(...answer.boxes.map((box) => box.x - box.width / 2));
    const right = Math.max(...answer.boxes.map((box) => box.x + box.width / 2));
    this.middle = answer.boxes.length ? (left + right) / 2 : 0;
  }

  /** This frame and all frames in it. */
  *all() {
    yield this;
    for (const frame of this.open.values()) yield* frame.all();
  }
}

/**
 * Compute the coordinates in a frame with open boxes: their rows become higher and move the rows below down; other boxes
 * of the row move aside. The layout is never computed again, so all other boxes keep their places.
 * Sets the frame's size, frame.at (centers and sizes of boxes) and frame.lines (points of edges), relative to the top center.
 */
export function measure(frame) {
  const { boxes, edges } = frame.answer;
  const sizes = boxes.map((box, i) => (frame.open.has(i) ? measure(frame.open.get(i)) : box));
  const at = new Array(boxes.length);
  let shift = 0;
  let half = 0;
  for (const row of frame.rows) {
    const wide = row.members.reduce((sum, i) => sum + sizes[i].width - boxes[i].width, 0);
    row.extra = Math.max(0, ...row.members.map((i) => sizes[i].height - boxes[i].height));
    row.shift = shift;
    row.steps = []; // [center in the layout, the shift of everything to the left of it]
    let passed = -wide / 2;
    for (const i of row.members) {
      const more = sizes[i].width - boxes[i].width;
      const x = boxes[i].x + passed + more / 2 - frame.middle;
      at[i] = { x, y: boxes[i].y + shift + row.extra / 2, width: sizes[i].width, height: sizes[i].height };
      row.steps.push([boxes[i].x, passed]);
      passed += more;
      half = Math.max(half, Math.abs(x) + sizes[i].width / 2);
    }
    row.last = passed;
    shift += row.extra;
  }
  for (const edge of edges) for (const x of edge.bends) half = Math.max(half, Math.abs(x - frame.middle));
  frame.at = at;
  frame.width = Math.max(2 * (half + PADDING), MIN_WIDTH);
  frame.height = (frame.rows.at(-1)?.bottom ?? 20) + shift + TITLE + PADDING;
  frame.lines = edges.map((edge) => lineOf(frame, edge));
  return frame;
}

function lineOf(frame, edge) {
  const { boxes } = frame.answer;
  const [from, to] = [frame.at[edge.from], frame.at[edge.to]];
  const down = boxes[edge.to].row >= boxes[edge.from].row ? 1 : -1;
  // An edge from outside begins below the title; an edge to outside ends at the bottom.
  const line = [boxes[edge.from].kind === "entry" ? [0, -4] : [from.x, from.y + (down * from.height) / 2]];
  edge.bends.forEach((x, i) => line.push(...passing(frame, frame.rows[boxes[edge.from].row + down * (i + 1)], x, down)));
  line.push(boxes[edge.to].kind === "exit" ? [0, frame.height - TITLE - 2] : [to.x, to.y - (down * to.height) / 2]);
  return line;
}

/** The two points where an edge passes a row vertically. */
function passing(frame, row, x, down) {
  const step = row.steps.find(([middle]) => x < middle);
  const now = x + (step ? step[1] : row.last) - frame.middle;
  const ends = [[now, row.top + row.shift], [now, row.bottom + row.shift + row.extra]];
  return down > 0 ? ends : ends.reverse();
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
 * All boxes and edges on the map with their coordinates, outer boxes before inner ones.
 * A box: name, box (of the server's answer), frame (around it), inner (its own frame, if it is open), depth,
 * x, y (left, top), width, height. Edges are listed by frame: edge, points, middle, from and to (names of boxes).
 */
export function flatten(root) {
  measure(root);
  const boxes = [];
  const edges = new Map(); // by frame
  const visit = (frame, x, y, depth) => {
    frame.x = x;
    frame.y = y;
    edges.set(frame, frame.lines.map((line, i) => {
      const edge = frame.answer.edges[i];
      const points = line.map(([px, py]) => [px + x, py + y]);
      return { edge, points, middle: middleOf(points), from: boxName(frame, edge.from), to: boxName(frame, edge.to) };
    }));
    frame.answer.boxes.forEach((box, i) => {
      if (box.kind === "entry" || box.kind === "exit") return;
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
