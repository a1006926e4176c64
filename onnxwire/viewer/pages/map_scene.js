// The open groups of the map, and the coordinates of everything in them.

export const TITLE = 34; // height of the title of an open group
const PADDING = 20; // margin within an open group
const MIN_WIDTH = 300; // minimum width of an open group, for its title

/** An open group: the server's answer, which is laid out with all boxes closed, and the open boxes. */
export class Frame {
  /** toRight: edges lead to the right, and "rows" are columns. Otherwise they lead down. */
  constructor(name, answer, toRight = false) {
    Object.assign(this, { name, answer, toRight });
    // The names of coordinates and sizes along the edges, and across them.
    [this.along, this.across, this.length, this.breadth] = toRight ? ["x", "y", "width", "height"] : ["y", "x", "height", "width"];
    const { across, breadth } = this;
    this.open = new Map(); // by index of the box
    this.rows = answer.spans.map(([start, end]) => ({ start, end, members: [] }));
    answer.boxes.forEach((box, i) => this.rows[box.row].members.push(i));
    for (const row of this.rows) row.members.sort((a, b) => answer.boxes[a][across] - answer.boxes[b][across]);
    const minimum = Math.min(...answer.boxes.map((box) => box[across] - box[breadth] / 2));
    const maximum = Math.max(...answer.boxes.map((box) => box[across] + box[breadth] / 2));
    this.middle = answer.boxes.length ? (minimum + maximum) / 2 : 0;
  }

  /** A point from its coordinates along and across the edges. */
  point(along, across) {
    return this.toRight ? [along, across] : [across, along];
  }

  /** This frame and all frames in it. */
  *all() {
    yield this;
    for (const frame of this.open.values()) yield* frame.all();
  }
}

/**
 * Compute the coordinates in a frame with open boxes: their rows become higher and move the rows below down; other boxes
 * of the row move aside. The layout is never computed again, so all other boxes keep their positions.
 * Sets the frame's size, frame.at (centers and sizes of boxes) and frame.lines (points of edges), relative to the middle
 * of the first row's upper side, or of its left side if edges lead to the right.
 */
export function measure(frame) {
  const { boxes, edges } = frame.answer;
  const { toRight, along, across, length, breadth } = frame;
  const sizes = boxes.map((box, i) => (frame.open.has(i) ? measure(frame.open.get(i)) : box));
  const at = new Array(boxes.length);
  let shift = 0;
  let half = 0;
  for (const row of frame.rows) {
    const added = row.members.reduce((sum, i) => sum + sizes[i][breadth] - boxes[i][breadth], 0);
    row.extra = Math.max(0, ...row.members.map((i) => sizes[i][length] - boxes[i][length]));
    row.shift = shift;
    row.steps = []; // [center in the layout, the shift of everything before it]
    let offset = -added / 2;
    for (const i of row.members) {
      const more = sizes[i][breadth] - boxes[i][breadth];
      const center = boxes[i][across] + offset + more / 2 - frame.middle;
      at[i] = { [across]: center, [along]: boxes[i][along] + shift + row.extra / 2, width: sizes[i].width, height: sizes[i].height };
      row.steps.push([boxes[i][across], offset]);
      offset += more;
      half = Math.max(half, Math.abs(center) + sizes[i][breadth] / 2);
    }
    row.last = offset;
    shift += row.extra;
  }
  for (const edge of edges) for (const bend of edge.bends) half = Math.max(half, Math.abs(bend - frame.middle));
  const end = (frame.rows.at(-1)?.end ?? 20) + shift;
  frame.at = at;
  frame.width = Math.max(toRight ? end + 2 * PADDING : 2 * (half + PADDING), MIN_WIDTH);
  frame.height = toRight ? 2 * (half + PADDING) + TITLE : end + TITLE + PADDING;
  frame.end = toRight ? frame.width - PADDING - 2 : frame.height - TITLE - 2;
  frame.lines = edges.map((edge) => lineOf(frame, edge));
  return frame;
}

function lineOf(frame, edge) {
  const { boxes } = frame.answer;
  const { along, across, length } = frame;
  const [from, to] = [frame.at[edge.from], frame.at[edge.to]];
  const on = boxes[edge.to].row >= boxes[edge.from].row ? 1 : -1;
  // An edge from outside begins at the border of the frame; an edge to outside ends there.
  const line = [boxes[edge.from].kind === "entry" ? frame.point(frame.toRight ? 2 - PADDING : -4, 0) : frame.point(from[along] + (on * from[length]) / 2, from[across])];
  edge.bends.forEach((bend, i) => line.push(...passing(frame, frame.rows[boxes[edge.from].row + on * (i + 1)], bend, on)));
  line.push(boxes[edge.to].kind === "exit" ? frame.point(frame.end, 0) : frame.point(to[along] - (on * to[length]) / 2, to[across]));
  return line;
}

/** The two points where an edge passes a row at a right angle. */
function passing(frame, row, bend, on) {
  const step = row.steps.find(([middle]) => bend < middle);
  const now = bend + (step ? step[1] : row.last) - frame.middle;
  const ends = [frame.point(row.start + row.shift, now), frame.point(row.end + row.shift + row.extra, now)];
  return on > 0 ? ends : ends.reverse();
}

const boxName = (frame, i) => {
  const { number, kind } = frame.answer.boxes[i];
  return number === null ? `${frame.name}:${kind}${i}` : `${frame.name}/${number}`;
};

/**
 * All boxes and edges on the map with their coordinates, outer boxes before inner ones.
 * A box: name, box (of the server's answer), frame (around it), inner (its own frame, if it is open), depth,
 * x, y (left, top), width, height. Edges are listed by frame: edge, points, from and to (names of boxes).
 */
export function flatten(root) {
  measure(root);
  const boxes = [];
  const edges = new Map(); // by frame
  const visit = (frame, x, y, depth) => {
    frame.x = x;
    frame.y = y;
    // The left and right border.
    const left = frame.toRight ? x - PADDING : x - frame.width / 2;
    frame.borders = depth ? [left, left + frame.width] : [-Infinity, Infinity];
    frame.labels = frame.nearLabels = null; // placed when they are drawn
    edges.set(frame, frame.lines.map((line, i) => {
      const edge = frame.answer.edges[i];
      const points = line.map(([px, py]) => [px + x, py + y]);
      return { edge, points, from: boxName(frame, edge.from), to: boxName(frame, edge.to) };
    }));
    frame.answer.boxes.forEach((box, i) => {
      if (box.kind === "entry" || box.kind === "exit") return;
      const position = frame.at[i];
      const inner = frame.open.get(i);
      const placed = {
        name: boxName(frame, i),
        box, frame, inner, depth, index: i,
        x: x + position.x - position.width / 2,
        y: y + position.y - position.height / 2,
        width: position.width,
        height: position.height,
      };
      boxes.push(placed);
      if (inner?.toRight) visit(inner, placed.x + PADDING, placed.y + (TITLE + placed.height) / 2, depth + 1);
      else if (inner) visit(inner, x + position.x, placed.y + TITLE, depth + 1);
    });
  };
  visit(root, 0, 0, 0);
  const { width, height } = root;
  const inside = height - TITLE;
  const bounds = root.toRight ? { left: -PADDING, top: -inside / 2, width, height: inside } : { left: -width / 2, top: -PADDING, width, height: inside + PADDING };
  return { root, boxes, edges, bounds };
}
