// Texts on the map: their widths, how they are shortened, and the places of the labels at edges.

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
const UNIT = 20; // size in pixels at which letters are measured
const LABEL = { size: 10, height: 12, gap: 5 };
const ARROW = [8, 10]; // half the width, and the length, that labels keep clear of
const MAX_PLACES = 6; // segments of an edge at which its label may be
const STEPS = 20; // points of a segment that labels keep clear of

const widths = [new Map(), new Map()]; // of letters, regular and bold
let ruler = null;

/** The width of a text in pixels, as the sum of its letters. */
export function widthOf(text, size, bold = false) {
  const known = widths[bold ? 1 : 0];
  let width = 0;
  for (const letter of text) {
    let one = known.get(letter);
    if (one === undefined) {
      ruler ??= new OffscreenCanvas(1, 1).getContext("2d");
      ruler.font = `${bold ? 600 : 400} ${UNIT}px ${FONT}`;
      one = ruler.measureText(letter).width;
      if (known.size < 10_000) known.set(letter, one);
    }
    width += one;
  }
  return (width * size) / UNIT;
}

/** Shorten a text to a width. keep: the part that remains, "start", "end" or "both". */
export function cut(text, width, size, { bold = false, keep = "start" } = {}) {
  if (widthOf(text, size, bold) <= width) return text;
  const letters = [...text];
  let left = width - widthOf("…", size, bold);
  let [first, last] = [0, letters.length]; // letters before first and from last on are shown
  while (first < last) {
    const isNext = keep === "start" || (keep === "both" && first <= letters.length - last);
    left -= widthOf(letters[isNext ? first : last - 1], size, bold);
    if (left < 0) break;
    if (isNext) first += 1;
    else last -= 1;
  }
  return `${letters.slice(0, first).join("")}…${letters.slice(last).join("")}`;
}

/** Join the first parts of a list that fit a width; an ellipsis replaces the other parts. */
export function fitParts(parts, width, size, separator = ", ") {
  for (let count = parts.length; count > 0; count -= 1) {
    const text = parts.slice(0, count).join(separator) + (count < parts.length ? " …" : "");
    if (widthOf(text, size) <= width || count === 1) return cut(text, width, size);
  }
  return "";
}

/** A point of an edge between two of its points, as `trace` draws it; t from 0 to 1. */
function pointOf([x0, y0], [x1, y1], toRight, t) {
  // A cubic curve, whose control points are half way along, at the coordinates across of its ends.
  const [a, b, c, d] = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t ** 3];
  const along = (p, q) => a * p + (b + c) * ((p + q) / 2) + d * q;
  const across = (p, q) => (a + b) * p + (c + d) * q;
  return toRight ? [along(x0, x1), across(y0, y1)] : [across(x0, x1), along(y0, y1)];
}

/** Points on the edge at small distances. */
function samplesOf(points, toRight) {
  const found = [];
  for (let i = 1; i < points.length; i += 1) {
    for (let k = 0; k <= STEPS; k += 1) found.push(pointOf(points[i - 1], points[i], toRight, k / STEPS));
  }
  return found;
}

/**
 * The places of labels at edges: next to their edges, within the frame, clear of boxes, other labels and all edges.
 * edges: of a frame, as in `flatten`. chosen: those with labels; textOf(edge): the label. isForced: place a label over
 * edges if there is no free place, rather than omit it. Returns {one, text, x, y, width}; y is the baseline.
 */
export function placeLabels(frame, edges, chosen, textOf, isForced = false) {
  const taken = frame.at.map((spot) => [frame.x + spot.x - spot.width / 2, frame.y + spot.y - spot.height / 2, spot.width, spot.height]);
  for (const { points } of edges) {
    const [x, y] = points[points.length - 1];
    taken.push(frame.toRight ? [x - ARROW[1], y - ARROW[0] / 2, ARROW[1], ARROW[0]] : [x - ARROW[0] / 2, y - ARROW[1], ARROW[0], ARROW[1]]);
  }
  const lines = edges.flatMap((one) => samplesOf(one.points, frame.toRight));
  const [left, right] = frame.borders;
  const isFree = ([x, y, w, h]) =>
    x > left && x + w < right && !taken.some(([a, b, c, d]) => x < a + c && x + w > a && y < b + d && y + h > b) && !lines.some(([a, b]) => a > x - 3 && a < x + w + 3 && b > y && b < y + h);
  const labels = [];
  for (const one of chosen) {
    const text = textOf(one);
    if (!text) continue;
    const width = widthOf(text, LABEL.size);
    const { gap, height } = LABEL;
    const places = [];
    const last = one.points.length - 1;
    for (let i = last; i > Math.max(last - MAX_PLACES, 0); i -= 1) {
      for (const t of [0.5, 0.7, 0.3, 0.85, 0.15]) {
        const [x, y] = pointOf(one.points[i - 1], one.points[i], frame.toRight, t);
        if (frame.toRight) places.push([x - width / 2, y - height - 2, width, height], [x - width / 2, y + 2, width, height]);
        else places.push([x + gap, y - height / 2, width, height], [x - gap - width, y - height / 2, width, height]);
      }
    }
    // Or beside the arrow, or the start, where edges of a fan are apart.
    for (const [[x, y], isEnd] of [[one.points[last], true], [one.points[0], false]]) {
      if (frame.toRight) for (const side of [y - height - 2, y + 3]) places.push([isEnd ? x - ARROW[1] - width - 2 : x + gap, side, width, height]);
      else for (const side of [x + gap + 1, x - gap - 1 - width]) places.push([side, isEnd ? y - height - 1 : y + 1, width, height]);
    }
    const place = places.find(isFree) ?? (isForced ? places[0] : null);
    if (!place) continue;
    taken.push(place);
    labels.push({ one, text, x: place[0], y: place[1] + LABEL.height - 3, width });
  }
  return labels;
}
