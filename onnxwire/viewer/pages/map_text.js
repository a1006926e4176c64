// Texts on the map: their widths, shortening, and the positions of the labels at edges.

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
const MEASURE_SIZE = 20; // font size in pixels at which letters are measured
const LABEL = { size: 10, height: 12, gap: 5 }; // in pixels; gap: the distance from the edge
const ARROW = [8, 10]; // width and length in pixels of the rectangle around an arrow; labels must not cover it
const MAX_LABEL_SEGMENTS = 6; // maximum number of segments of an edge that are tried for its label
const CURVE_STEPS = 20; // number of steps per segment of an edge; labels must not cover the points before and after each step

const widths = [new Map(), new Map()]; // the widths of regular letters, and of bold letters
let ruler = null; // the canvas context that measures letters

/** Return the width of a text in pixels: the sum of the widths of its letters. */
export function widthOf(text, size, bold = false) {
  const letterWidths = widths[bold ? 1 : 0];
  let width = 0;
  for (const letter of text) {
    let letterWidth = letterWidths.get(letter);
    if (letterWidth === undefined) {
      ruler ??= new OffscreenCanvas(1, 1).getContext("2d");
      ruler.font = `${bold ? 600 : 400} ${MEASURE_SIZE}px ${FONT}`;
      letterWidth = ruler.measureText(letter).width;
      if (letterWidths.size < 10_000) letterWidths.set(letter, letterWidth);
    }
    width += letterWidth;
  }
  return (width * size) / MEASURE_SIZE;
}

/** Shorten a text to a width. keep: the part that remains, "start", "end" or "both". */
export function shorten(text, width, size, { bold = false, keep = "start" } = {}) {
  if (widthOf(text, size, bold) <= width) return text;
  const letters = [...text];
  let remainingWidth = width - widthOf("…", size, bold);
  let [first, last] = [0, letters.length]; // the letters before `first` and from `last` on remain
  while (first < last) {
    const keepsStart = keep === "start" || (keep === "both" && first <= letters.length - last);
    remainingWidth -= widthOf(letters[keepsStart ? first : last - 1], size, bold);
    if (remainingWidth < 0) break;
    if (keepsStart) first += 1;
    else last -= 1;
  }
  return `${letters.slice(0, first).join("")}…${letters.slice(last).join("")}`;
}

/** Join the first parts of a list that fit a width; an ellipsis replaces the other parts. If no part fits, shorten the first. */
export function fitParts(parts, width, size, separator = ", ") {
  for (let count = parts.length; count > 0; count -= 1) {
    const text = parts.slice(0, count).join(separator) + (count < parts.length ? " …" : "");
    if (widthOf(text, size) <= width || count === 1) return shorten(text, width, size);
  }
  return "";
}

/** Return a point of the curve that map_paint.js draws between two points of an edge. t: 0 for the first, 1 for the second. */
function pointOf([x0, y0], [x1, y1], toRight, t) {
  // A cubic Bezier curve. In the direction of the edge, both control points are half way between the two points; across it, the
  // first control point has the coordinate of the first point, and the second that of the second point.
  const [a, b, c, d] = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t ** 3];
  const along = (p, q) => a * p + (b + c) * ((p + q) / 2) + d * q;
  const across = (p, q) => (a + b) * p + (c + d) * q;
  return toRight ? [along(x0, x1), across(y0, y1)] : [across(x0, x1), along(y0, y1)];
}

/** Return CURVE_STEPS + 1 points on each segment of an edge. */
function samplesOf(points, toRight) {
  const samples = [];
  for (let i = 1; i < points.length; i += 1) {
    for (let step = 0; step <= CURVE_STEPS; step += 1) samples.push(pointOf(points[i - 1], points[i], toRight, step / CURVE_STEPS));
  }
  return samples;
}

/**
 * Place labels next to their edges, between the left and right borders of an open group, so that they cover no boxes, arrows, edges or
 * labels of the same call. frame: the Frame (map_scene.js) of the group. edges: the edges that labels must not cover, as `flatten` of map_scene.js
 * returns them. labelledEdges: the edges that get labels. textOf(edge): returns the label. isForced: if there is no free position, place
 * a label at the middle of the last segment of its edge, instead of omitting it; this label may cover anything. Returns a list of
 * {mapEdge, text, x, y, width}; y is the baseline.
 */
export function placeLabels(frame, edges, labelledEdges, textOf, isForced = false) {
  const occupied = frame.positions.map((position) => [frame.x + position.x - position.width / 2, frame.y + position.y - position.height / 2, position.width, position.height]);
  for (const { points } of edges) {
    const [x, y] = points[points.length - 1];
    occupied.push(frame.toRight ? [x - ARROW[1], y - ARROW[0] / 2, ARROW[1], ARROW[0]] : [x - ARROW[0] / 2, y - ARROW[1], ARROW[0], ARROW[1]]);
  }
  const edgePoints = edges.flatMap((mapEdge) => samplesOf(mapEdge.points, frame.toRight));
  const [left, right] = frame.borders;
  const isFree = ([x, y, w, h]) =>
    x > left && x + w < right && !occupied.some(([a, b, c, d]) => x < a + c && x + w > a && y < b + d && y + h > b) && !edgePoints.some(([a, b]) => a > x - 3 && a < x + w + 3 && b > y && b < y + h);
  const labels = [];
  for (const mapEdge of labelledEdges) {
    const text = textOf(mapEdge);
    if (!text) continue;
    const width = widthOf(text, LABEL.size);
    const { gap, height } = LABEL;
    const candidates = [];
    const last = mapEdge.points.length - 1;
    for (let i = last; i > Math.max(last - MAX_LABEL_SEGMENTS, 0); i -= 1) {
      for (const t of [0.5, 0.7, 0.3, 0.85, 0.15]) {
        const [x, y] = pointOf(mapEdge.points[i - 1], mapEdge.points[i], frame.toRight, t);
        if (frame.toRight) candidates.push([x - width / 2, y - height - 2, width, height], [x - width / 2, y + 2, width, height]);
        else candidates.push([x + gap, y - height / 2, width, height], [x - gap - width, y - height / 2, width, height]);
      }
    }
    // Also try the positions beside the two ends of the edge: where one end is among other edges, the other end may be free.
    for (const [[x, y], isEnd] of [[mapEdge.points[last], true], [mapEdge.points[0], false]]) {
      if (frame.toRight) for (const side of [y - height - 2, y + 3]) candidates.push([isEnd ? x - ARROW[1] - width - 2 : x + gap, side, width, height]);
      else for (const side of [x + gap + 1, x - gap - 1 - width]) candidates.push([side, isEnd ? y - height - 1 : y + 1, width, height]);
    }
    const rectangle = candidates.find(isFree) ?? (isForced ? candidates[0] : null);
    if (!rectangle) continue;
    occupied.push(rectangle);
    labels.push({ mapEdge, text, x: rectangle[0], y: rectangle[1] + LABEL.height - 3, width });
  }
  return labels;
}
