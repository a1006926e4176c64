// What is open on the map, and where it is drawn.

export const TITLE = 34; // height of the title of an open group
const PADDING = 20; // within an open group
const NARROWEST = 300; // open group, for its title

/** An open group: what the server says is in it, where that is when all in it is closed, and which of it is open. */
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

  /** All frames, this one first. */
  *all() {
    yield this;
    for (const frame of this.open.values()) yield* frame.all();
  }
}

/**
 * Where everything in a frame is while some of it is open: rows become higher, and move what is below down; in a row
 * the others move aside. What was laid out is never laid out again, so all else stays where it was.
 * Gives the frame's size, and fills frame.at (middles and sizes) and frame.lines (points of edges), around (0, top).
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
    row.steps = []; // [middle in the layout, how far what is left of it moves]
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
  frame.width = Math.max(2 * (half + PADDING), NARROWEST);
  frame.height = (frame.rows.at(-1)?.bottom ?? 20) + shift + TITLE + PADDING;
  frame.lines = edges.map((edge) => lineOf(frame, edge));
  return frame;
}

function lineOf(frame, edge) {
  const { boxes } = frame.answer;
  const [from, to] = [frame.at[edge.from], frame.at[edge.to]];
  const down = boxes[edge.to].row >= boxes[edge.from].row ? 1 : -1;
  // From outside an edge comes in below the title, and goes out at the bottom.
  const line = [boxes[edge.from].kind === "entry" ? [0, -4] : [from.x, from.y + (down * from.height) / 2]];
  edge.bends.forEach((x, i) => line.push(...passing(frame, frame.rows[boxes[edge.from].row + down * (i + 1)], x, down)));
  line.push(boxes[edge.to].kind === "exit" ? [0, frame.height - TITLE - 2] : [to.x, to.y - (down * to.height) / 2]);
  return line;
}

/** Where an edge passes a row, straight from one side to the other. */
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
