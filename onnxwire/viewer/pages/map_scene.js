// The open groups of the map, and the coordinates of everything in them.

export const TITLE_HEIGHT = 34; // height in pixels of the title of an open group
const PADDING = 20; // margin within an open group
const MIN_FRAME_WIDTH = 300; // minimum width of an open group, for its title

/**
 * An open group: the server's answer (`ModelMap.contents` of graph_map.py), whose coordinates are those of closed boxes, and the
 * frames of the open boxes.
 */
export class Frame {
  /** toRight: edges lead to the right, and "rows" are columns. Otherwise edges lead down. */
  constructor(name, answer, toRight = false) {
    Object.assign(this, { name, answer, toRight });
    // The names of the coordinate along the edges, the coordinate across them, and the sizes in these two directions.
    [this.along, this.across, this.length, this.breadth] = toRight ? ["x", "y", "width", "height"] : ["y", "x", "height", "width"];
    const { across, breadth } = this;
    this.open = new Map(); // by index of the box
    this.rows = answer.spans.map(([start, end]) => ({ start, end, boxIndices: [] }));
    answer.boxes.forEach((box, i) => this.rows[box.row].boxIndices.push(i));
    for (const row of this.rows) row.boxIndices.sort((a, b) => answer.boxes[a][across] - answer.boxes[b][across]);
    const minimum = Math.min(...answer.boxes.map((box) => box[across] - box[breadth] / 2));
    const maximum = Math.max(...answer.boxes.map((box) => box[across] + box[breadth] / 2));
    this.middle = answer.boxes.length ? (minimum + maximum) / 2 : 0;
  }

  /** Return a point [x, y] from its coordinates along and across the edges. */
  point(along, across) {
    return this.toRight ? [along, across] : [across, along];
  }

  /** Iterate over this frame and all frames in it. */
  *all() {
    yield this;
    for (const frame of this.open.values()) yield* frame.all();
  }
}

/**
 * Compute the coordinates in a frame with open boxes. The row of an open box becomes higher, so the rows below move down,
 * and the other boxes of the row move aside. The layout is not computed again, so boxes keep their relative positions.
 * Sets the frame's size, frame.positions (centers and sizes of boxes) and frame.lines (points of edges), relative to the middle
 * of the upper side of the layout, or of its left side if edges lead to the right. Also sets, all in pixels:
 * row.extra: how much the row becomes higher. row.shift: how far it moves down, the sum of `extra` of the rows above.
 * row.endShift: how far bends of edges behind the last box of the row move aside. frame.end: the coordinate along the edges at
 * which edges to the outside end.
 */
function computeCoordinates(frame) {
  const { boxes, edges } = frame.answer;
  const { toRight, along, across, length, breadth } = frame;
  const sizes = boxes.map((box, i) => (frame.open.has(i) ? computeCoordinates(frame.open.get(i)) : box));
  const positions = new Array(boxes.length);
  let shift = 0;
  let halfBreadth = 0;
  for (const row of frame.rows) {
    const addedBreadth = row.boxIndices.reduce((sum, i) => sum + sizes[i][breadth] - boxes[i][breadth], 0);
    row.extra = Math.max(0, ...row.boxIndices.map((i) => sizes[i][length] - boxes[i][length]));
    row.shift = shift;
    row.steps = []; // [center of a box in the layout, shift of the bends before it]
    let offset = -addedBreadth / 2;
    for (const i of row.boxIndices) {
      const extraBreadth = sizes[i][breadth] - boxes[i][breadth];
      const center = boxes[i][across] + offset + extraBreadth / 2 - frame.middle;
      positions[i] = { [across]: center, [along]: boxes[i][along] + shift + row.extra / 2, width: sizes[i].width, height: sizes[i].height };
      row.steps.push([boxes[i][across], offset]);
      offset += extraBreadth;
      halfBreadth = Math.max(halfBreadth, Math.abs(center) + sizes[i][breadth] / 2);
    }
    row.endShift = offset;
    shift += row.extra;
  }
  for (const edge of edges) for (const bend of edge.bends) halfBreadth = Math.max(halfBreadth, Math.abs(bend - frame.middle));
  const lastEnd = (frame.rows.at(-1)?.end ?? PADDING) + shift;
  frame.positions = positions;
  frame.width = Math.max(toRight ? lastEnd + 2 * PADDING : 2 * (halfBreadth + PADDING), MIN_FRAME_WIDTH);
  frame.height = toRight ? 2 * (halfBreadth + PADDING) + TITLE_HEIGHT : lastEnd + TITLE_HEIGHT + PADDING;
  frame.end = toRight ? frame.width - PADDING - 2 : frame.height - TITLE_HEIGHT - 2;
  frame.lines = edges.map((edge) => edgePoints(frame, edge));
  return frame;
}

/** Return the points of an edge: its start, two points for each of its bends, and its end. */
function edgePoints(frame, edge) {
  const { boxes } = frame.answer;
  const { along, across, length } = frame;
  const [from, to] = [frame.positions[edge.from], frame.positions[edge.to]];
  const direction = boxes[edge.to].row >= boxes[edge.from].row ? 1 : -1;
  // An edge from the outside begins at the border of the frame; an edge to the outside ends at the border.
  const line = [boxes[edge.from].kind === "entry" ? frame.point(frame.toRight ? 2 - PADDING : -4, 0) : frame.point(from[along] + (direction * from[length]) / 2, from[across])];
  edge.bends.forEach((bend, i) => line.push(...rowCrossing(frame, frame.rows[boxes[edge.from].row + direction * (i + 1)], bend, direction)));
  line.push(boxes[edge.to].kind === "exit" ? frame.point(frame.end, 0) : frame.point(to[along] - (direction * to[length]) / 2, to[across]));
  return line;
}

/** Return the two points at which an edge enters and leaves a row; between them it is straight. */
function rowCrossing(frame, row, bend, direction) {
  const step = row.steps.find(([middle]) => bend < middle);
  const position = bend + (step ? step[1] : row.endShift) - frame.middle;
  const ends = [frame.point(row.start + row.shift, position), frame.point(row.end + row.shift + row.extra, position)];
  return direction > 0 ? ends : ends.reverse();
}

// The name of a box: as in the server's `Groups`; for a box without a number, unique within the frame.
const boxName = (frame, i) => {
  const { number, kind } = frame.answer.boxes[i];
  return number === null ? `${frame.name}:${kind}${i}` : `${frame.name}/${number}`;
};

/**
 * Return all edges on the map and all boxes except those of kind entry and exit, with their coordinates, outer boxes before inner boxes.
 * A box: name, box (of the server's answer), frame (around it), innerFrame (its own frame, if it is open), depth (number of
 * open boxes around it), index (in its frame), x, y (left, top), width, height. Edges are listed by frame: edge (of the server's
 * answer), points, from and to (names of boxes). bounds: left, top, width and height of the whole map. root: the given frame.
 */
export function flatten(root) {
  computeCoordinates(root);
  const boxes = [];
  const edges = new Map(); // by frame
  const visit = (frame, x, y, depth) => {
    frame.x = x;
    frame.y = y;
    // The left and right border.
    const left = frame.toRight ? x - PADDING : x - frame.width / 2;
    frame.borders = depth ? [left, left + frame.width] : [-Infinity, Infinity];
    frame.labels = frame.selectionLabels = null; // placed when they are drawn
    edges.set(frame, frame.lines.map((line, i) => {
      const edge = frame.answer.edges[i];
      const points = line.map(([px, py]) => [px + x, py + y]);
      return { edge, points, from: boxName(frame, edge.from), to: boxName(frame, edge.to) };
    }));
    frame.answer.boxes.forEach((box, i) => {
      if (box.kind === "entry" || box.kind === "exit") return;
      const position = frame.positions[i];
      const innerFrame = frame.open.get(i);
      const mapBox = {
        name: boxName(frame, i),
        box, frame, innerFrame, depth, index: i,
        x: x + position.x - position.width / 2,
        y: y + position.y - position.height / 2,
        width: position.width,
        height: position.height,
      };
      boxes.push(mapBox);
      if (innerFrame?.toRight) visit(innerFrame, mapBox.x + PADDING, mapBox.y + (TITLE_HEIGHT + mapBox.height) / 2, depth + 1);
      else if (innerFrame) visit(innerFrame, x + position.x, mapBox.y + TITLE_HEIGHT, depth + 1);
    });
  };
  visit(root, 0, 0, 0);
  const { width, height } = root;
  const contentHeight = height - TITLE_HEIGHT;
  const bounds = root.toRight ? { left: -PADDING, top: -contentHeight / 2, width, height: contentHeight } : { left: -width / 2, top: -PADDING, width, height: contentHeight + PADDING };
  return { root, boxes, edges, bounds };
}
