// Cameras that show the map, its beginning, or one box, beside the card of the selection.
// A camera: the coordinates x and y of the left upper corner, and the scale. A viewport, in pixels: width and height of the canvas,
// and covered, the width of its left part that the card covers. A scene: the result of `flatten` of map_scene.js.

export const [MIN_SCALE, MAX_SCALE] = [0.01, 3]; // pixels of the screen per unit of the map
const LEGIBLE_SCALE = 0.62; // minimum scale at which text is legible
const MAX_FITTED_SCALE = 1.15; // maximum scale of a small map or box that is shown as a whole
const BAR_HEIGHT = 44; // height in pixels of the buttons above the map
const MARGIN_X = 48; // free pixels at the left and the right side together
const MARGIN_Y = 72; // free pixels at the upper and the lower side together
const CENTER_SHIFT = 12; // pixels by which the center is lower than half the height, because of the buttons above the map
const MAX_FIRST_SCALE = 0.85; // maximum scale of a large map that is shown from its beginning

/** Return the bounds of a scene as a box. */
export const boundsOf = ({ bounds }) => ({ x: bounds.left, y: bounds.top, width: bounds.width, height: bounds.height });

/** Return the camera that shows a whole box. */
export function cameraOfBox(viewport, box) {
  const freeWidth = viewport.width - viewport.covered;
  const scale = Math.min(Math.max(Math.min((freeWidth - MARGIN_X) / box.width, (viewport.height - MARGIN_Y) / box.height), MIN_SCALE), MAX_FITTED_SCALE);
  return { scale, x: box.x + box.width / 2 - (viewport.covered + freeWidth / 2) / scale, y: box.y + box.height / 2 - (viewport.height / 2 + CENTER_SHIFT) / scale };
}

/** Return the camera that shows the whole scene if its text is then legible, else its beginning at a legible scale. */
export function cameraOfBeginning(viewport, scene) {
  const { x: left, y: top, width, height } = boundsOf(scene);
  const { toRight } = scene.root;
  const { covered } = viewport;
  const freeWidth = viewport.width - covered;
  const [scaleX, scaleY] = [(freeWidth - MARGIN_X) / width, (viewport.height - MARGIN_Y) / height];
  if (Math.min(scaleX, scaleY) >= LEGIBLE_SCALE) return cameraOfBox(viewport, boundsOf(scene));
  const scale = Math.min(Math.max(toRight ? scaleY : scaleX, LEGIBLE_SCALE), MAX_FIRST_SCALE);
  const firstMapBox = firstBox(scene);
  const [isTooWide, isTooHigh] = [scaleX < scale, scaleY < scale];
  // If the map is too large, show its beginning in the direction of the edges, and its first box in the other direction; else center it.
  const x = toRight && isTooWide ? left - (covered + MARGIN_X / 2) / scale : (isTooWide ? firstMapBox.x + firstMapBox.width / 2 : left + width / 2) - (covered + freeWidth / 2) / scale;
  const y = !toRight && isTooHigh ? top - BAR_HEIGHT / scale : (isTooHigh ? firstMapBox.y + firstMapBox.height / 2 : top + height / 2) - (viewport.height / 2 + CENTER_SHIFT) / scale;
  return { scale, x, y };
}

/** Return the first box of the first row in the root frame; only boxes of inputs are considered, if there are any. */
function firstBox({ root, boxes }) {
  const rootBoxes = boxes.filter((mapBox) => mapBox.frame === root);
  const coordinates = (mapBox) => (root.toRight ? [mapBox.x, mapBox.y] : [mapBox.y, mapBox.x]);
  const isBefore = (a, b) => {
    const [[a0, a1], [b0, b1]] = [coordinates(a), coordinates(b)];
    return a0 < b0 - 1 || (a0 < b0 + 1 && a1 < b1);
  };
  const inputs = rootBoxes.filter((mapBox) => mapBox.box.kind === "input");
  return (inputs.length ? inputs : rootBoxes).reduce((first, mapBox) => (isBefore(mapBox, first) ? mapBox : first));
}

/** Move a camera so that a box, or a part of a box that is too large, is visible beside the card. */
export function moveBesideCard(camera, viewport, box, toRight) {
  const { scale } = camera;
  const margin = 16 / scale;
  const shift = (start, size, low, high) => {
    if (size > high - low) return start > low && start < (low + high) / 2 ? 0 : start - low;
    return start < low ? start - low : start + size > high ? start + size - high : 0;
  };
  const [left, right] = [camera.x + viewport.covered / scale + margin, camera.x + viewport.width / scale - margin];
  const [top, bottom] = [camera.y + BAR_HEIGHT / scale, camera.y + viewport.height / scale - margin];
  camera.x += toRight || box.width < right - left ? shift(box.x, box.width, left, right) : box.x + box.width / 2 - (left + right) / 2;
  camera.y += shift(box.y, box.height, top, bottom);
}
