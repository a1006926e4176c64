// Cameras that show the map, its beginning, or one box, beside the card of the selection.
// A camera: x and y of the left upper corner, and scale. A window: width, height, and the pixels covered at its left.

export const [MIN_SCALE, MAX_SCALE] = [0.01, 3];
const LEGIBLE_SCALE = 0.62;
const MAX_FITTED_SCALE = 1.15;
const BAR_HEIGHT = 44; // height of the buttons above the map
const [MARGIN_X, MARGIN_Y] = [48, 72];

export const boundsOf = ({ bounds }) => ({ x: bounds.left, y: bounds.top, width: bounds.width, height: bounds.height });

/** The camera that shows a whole box. */
export function whole(window, box) {
  const free = window.width - window.covered;
  const scale = Math.min(Math.max(Math.min((free - MARGIN_X) / box.width, (window.height - MARGIN_Y) / box.height), MIN_SCALE), MAX_FITTED_SCALE);
  return { scale, x: box.x + box.width / 2 - (window.covered + free / 2) / scale, y: box.y + box.height / 2 - (window.height / 2 + 12) / scale };
}

/** The camera that shows the whole scene if its text is then legible, or else its beginning at a legible scale. */
export function beginning(window, scene) {
  const { x: left, y: top, width, height } = boundsOf(scene);
  const { toRight } = scene.root;
  const { covered } = window;
  const free = window.width - covered;
  const [wide, high] = [(free - MARGIN_X) / width, (window.height - MARGIN_Y) / height];
  if (Math.min(wide, high) >= LEGIBLE_SCALE) return whole(window, boundsOf(scene));
  const scale = Math.min(Math.max(toRight ? high : wide, LEGIBLE_SCALE), 0.85);
  const first = firstBox(scene);
  const [isWide, isHigh] = [wide < scale, high < scale];
  // Along the edges, show the beginning; across them, the middle, or the first box of a map that is too wide.
  const x = toRight && isWide ? left - (covered + MARGIN_X / 2) / scale : (isWide ? first.x + first.width / 2 : left + width / 2) - (covered + free / 2) / scale;
  const y = !toRight && isHigh ? top - BAR_HEIGHT / scale : (isHigh ? first.y + first.height / 2 : top + height / 2) - (window.height / 2 + 12) / scale;
  return { scale, x, y };
}

/** The first box of the first row: an input, if there is one. */
function firstBox({ root, boxes }) {
  const outer = boxes.filter((one) => one.frame === root);
  const order = (one) => (root.toRight ? [one.x, one.y] : [one.y, one.x]);
  const isBefore = (a, b) => {
    const [[a0, a1], [b0, b1]] = [order(a), order(b)];
    return a0 < b0 - 1 || (a0 < b0 + 1 && a1 < b1);
  };
  const inputs = outer.filter((one) => one.box.kind === "input");
  return (inputs.length ? inputs : outer).reduce((best, one) => (isBefore(one, best) ? one : best));
}

/** Move a camera as little as possible so that a box is beside the card, or its beginning if it is too large. */
export function moveClear(camera, window, box, toRight) {
  const { scale } = camera;
  const margin = 16 / scale;
  const shift = (start, size, low, high) => {
    if (size > high - low) return start > low && start < (low + high) / 2 ? 0 : start - low;
    return start < low ? start - low : start + size > high ? start + size - high : 0;
  };
  const [left, right] = [camera.x + window.covered / scale + margin, camera.x + window.width / scale - margin];
  const [top, bottom] = [camera.y + BAR_HEIGHT / scale, camera.y + window.height / scale - margin];
  camera.x += toRight || box.width < right - left ? shift(box.x, box.width, left, right) : box.x + box.width / 2 - (left + right) / 2;
  camera.y += shift(box.y, box.height, top, bottom);
}
