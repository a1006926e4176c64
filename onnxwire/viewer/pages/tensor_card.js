// A tensor: its facts, histogram, heat map of a slice, and bytes.

import { ask, countText, html, link, nounText, numberText, setChildren, shapeText, sizeText, svg } from "./api.js";
import { bytesCard } from "./bytes.js";
import { replacementCard } from "./change_list.js";
import { editableValue, problemsCard, session } from "./edit_mode.js";
import { fieldsButton } from "./field_rows.js";

const BINS = 64; // number of bins of the histogram
const CELLS = 96; // maximum number of rows and of columns of cells of the heat map

/** Show the details of a tensor, and return the tensor; null if the user has opened another element in the meantime. isCurrent(): returns false in that case. */
export async function showTensor(path, details, isCurrent) {
  const tensor = await ask("tensor", { path });
  if (!isCurrent()) return null;
  const histogramCard = html("section", { class: "card", id: "histogram", "aria-label": "Histogram" });
  const heatMapCard = html("section", { class: "card", id: "heat-map", "aria-label": "Heat map" });
  const hasValues = tensor.data_type !== "STRING";
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, renamableName(tensor)), html("span", { class: "sub mono" }, shapeText(tensor)), html("span", { class: "actions" }, fieldsButton(path))),
    problemsCard(path),
    factsCard(tensor),
    replacementCard(),
    hasValues ? html("div", { class: "pair" }, histogramCard, heatMapCard) : html("p", { class: "note" }, "Strings have no histogram; their bytes are below."),
    bytesCard(path, hasValues ? path : null),
  );
  if (hasValues) {
    try {
      await showHistogram(histogramCard, tensor, false);
      if (isCurrent()) await new HeatMap(heatMapCard, tensor).show();
    } catch (error) {
      // For example, missing external data: show the error once, in place of both pictures.
      heatMapCard.remove();
      histogramCard.replaceChildren(html("h2", {}, "Values"), html("p", { role: "alert" }, error.message));
    }
  }
  return tensor;
}

/** Return the path of the graph of an initializer; undefined for any other tensor. */
const scopeOf = (tensor) => /^(.*)\.(?:initializer\[\d+\]|sparse_initializer\[\d+\]\.values)$/.exec(tensor.path)?.[1];

/** Return the name of a tensor, or its path if it has none. If edits are allowed, the name of an initializer has a button for renaming it wherever it is used. */
function renamableName(tensor) {
  const scope = scopeOf(tensor);
  if (scope === undefined || !tensor.name) return tensor.name || tensor.path;
  return editableValue(tensor.name, { label: "name", path: tensor.path, value: tensor.name, toChange: ({ value }) => ["rename_value", { path: scope, name: tensor.name, new: value }] });
}

/** Return a card with the size, location, consumers (of an initializer) and doc string of a tensor. */
function factsCard(tensor) {
  const elements = tensor.shape.reduce((product, length) => product * length, 1);
  const users = tensor.consumers.flatMap((node, i) => [i ? ", " : "", link("node", node.path, `${node.op_type} ${node.name}`)]);
  const omittedText = tensor.count > tensor.consumers.length ? ` and ${countText(tensor.count - tensor.consumers.length)} more` : "";
  const location = tensor.file === null ? "in the message itself" : `${tensor.file}${tensor.offset === null ? "" : `, from byte ${countText(tensor.offset)}`}`;
  const rows = [
    ["elements", `${countText(elements)} (${sizeText(tensor.bytes)})`],
    ["stored", location],
    ["used by", users.length ? [...users, omittedText] : scopeOf(tensor) === undefined ? "" : "no node"],
    ["doc", tensor.doc_string || session.is_editable ? editableValue(tensor.doc_string || "–", { label: "doc", path: `${tensor.path}.doc_string` }) : ""],
  ].filter(([, value]) => value);
  return html("section", { class: "card" }, html("dl", {}, ...rows.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, ...[value].flat())])));
}

/** Show a histogram in a card. readsAll: read all elements, not only samples. */
async function showHistogram(card, tensor, readsAll) {
  card.replaceChildren(html("h2", {}, "Histogram"), html("p", { class: "note", role: "status" }, "reading…"));
  const answer = await ask("histogram", { path: tensor.path, bins: BINS, whole: readsAll || null });
  const isPart = answer.read < answer.elements;
  const statistics = [["min", answer.min], ["max", answer.max], ["mean", answer.mean], ["std", answer.std], ["zeros", answer.zeros], ["NaN", answer.nan], ["Inf", answer.infinite]];
  card.replaceChildren(
    html("div", { class: "bar" }, html("h2", {}, "Histogram"), isPart ? html("button", { type: "button", class: "small-button", onclick: () => showHistogram(card, tensor, true) }, `Read all ${sizeText(tensor.bytes)}`) : ""),
    answer.min === null ? html("p", { class: "note" }, answer.elements ? `No element${isPart ? " that was read" : ""} is finite.` : "There are no elements.") : drawBars(answer),
    html("p", { class: "values" }, ...statistics.map(([name, value]) => html("span", {}, html("b", {}, name), typeof value === "number" && name.match(/zeros|NaN|Inf/) ? countText(value) : numberText(value)))),
    html("p", { class: "note" }, isPart ? `From ${countText(answer.read)} of ${countText(answer.elements)} elements, in blocks at equal distances.` : answer.elements === 1 ? "One element." : answer.elements ? `All ${countText(answer.elements)} elements.` : ""),
  );
}

/** Return the bars of a histogram as an SVG element. */
function drawBars(answer) {
  const [width, height, axisHeight] = [480, 150, 20];
  const maxCount = Math.max(...answer.counts, 1);
  const step = width / answer.counts.length;
  const span = answer.high - answer.low;
  const barElements = answer.counts.map((count, i) => {
    const barHeight = count ? Math.max((count / maxCount) * height, 1) : 0;
    const edge = (n) => numberText(answer.low + (span * n) / answer.counts.length);
    return svg("rect", { x: i * step + 0.5, y: height - barHeight, width: Math.max(step - 1, 0.5), height: barHeight }, svg("title", {}, `${edge(i)} to ${edge(i + 1)}: ${countText(count)}`));
  });
  const zero = answer.low < 0 && answer.high > 0 ? (-answer.low / span) * width : null;
  const text = (x, anchor, value) => svg("text", { class: "axis", x, y: height + 15, "text-anchor": anchor }, value);
  const hidesZeroLabel = zero === null || zero < 60 || zero > width - 60;
  return svg("svg", { viewBox: `0 0 ${width} ${height + axisHeight}`, width: "100%", role: "img", "aria-label": `Histogram of ${nounText(answer.counts.length, "bin")} from ${numberText(answer.low)} to ${numberText(answer.high)}` },
    svg("g", { class: "bars" }, ...barElements),
    zero === null ? "" : svg("line", { class: "zero-line", x1: zero, x2: zero, y1: 0, y2: height }),
    text(0, "start", numberText(answer.low)),
    span ? text(width, "end", numberText(answer.high)) : "",
    hidesZeroLabel ? "" : text(zero, "middle", "0"));
}

let shownHeatMap = null; // the heat map of the tensor that was opened last
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shownHeatMap?.answer && shownHeatMap.paint());

/** The heat map of two axes of a tensor in a card, with controls for the axes, the slice and the zoom. */
class HeatMap {
  constructor(card, tensor) {
    this.card = card;
    this.tensor = tensor;
    // Scalars and vectors get leading axes of length 1.
    this.shape = [...Array(Math.max(2 - tensor.shape.length, 0)).fill(1), ...tensor.shape];
    // Use the two longest axes: the last two axes of a convolution's weight would only be a few cells.
    const longest = [...this.shape.keys()].sort((a, b) => this.shape[b] - this.shape[a] || b - a);
    this.axes = longest.slice(0, 2).sort((a, b) => a - b);
    this.at = this.shape.map(() => 0); // the index of the slice on each axis; ignored for the two shown axes
    this.windows = []; // the windows of the zoom, each inside the previous one
    this.showsExtremes = false; // whether a cell shows the value farthest from 0, not the mean
    this.cell = [0, 0]; // row and column of the selected cell
    this.canvas = html("canvas", { id: "heat", tabindex: 0, role: "img" });
    this.canvas.addEventListener("mousemove", (event) => this.selectCellAt(event));
    this.canvas.addEventListener("click", (event) => { this.selectCellAt(event); this.zoomIn(); });
    this.canvas.addEventListener("keydown", (event) => this.handleKey(event));
    this.status = html("p", { class: "note mono", role: "status", id: "cell" });
    this.bar = html("div", { class: "bar" });
    this.legend = html("div", { class: "scale" });
    card.replaceChildren(html("h2", {}, "Heat map"), html("p", { class: "note" }, "reading…"));
    shownHeatMap = this;
  }

  /** Load and draw the heat map. */
  async show() {
    const { axes, at, showsExtremes } = this;
    this.answer = await ask("heat_map", { path: this.tensor.path, axes, at, window: this.windows.at(-1), size: [CELLS, CELLS], extreme: showsExtremes || null });
    this.cell = [0, 0];
    this.drawBar();
    const { height, width, elements, read, nonfinite } = this.answer;
    if (!elements) {
      this.card.replaceChildren(html("h2", {}, "Heat map"), html("p", { class: "note" }, "There are no elements."));
      return;
    }
    const hadFocus = document.activeElement === this.canvas;
    this.card.replaceChildren(this.bar, this.canvas, this.legend, this.status, html("p", { class: "note" },
      `${nounText(elements, "element")} in ${height} by ${width} cells`,
      read < elements ? `, from ${countText(read)} of them` : "",
      nonfinite ? `; ${countText(nonfinite)} NaN or infinite` : "",
      ". Click or Enter zooms in, Esc zooms out."));
    if (hadFocus) this.canvas.focus();
    this.paint();
    this.showStatus();
  }

  /** Draw the controls. */
  drawBar() {
    // role: 0 for the axis of the rows, 1 for the axis of the columns.
    const choose = (role) => {
      const select = html("select", { "aria-label": role ? "Columns" : "Rows" }, ...this.shape.map((length, axis) =>
        html("option", { value: axis, selected: this.axes[role] === axis }, `axis ${axis} (${length})`)));
      select.addEventListener("change", () => {
        const axis = Number(select.value);
        if (axis === this.axes[1 - role]) this.axes[1 - role] = this.axes[role];
        this.axes[role] = axis;
        this.windows = [];
        this.show();
      });
      return html("label", { class: "group" }, role ? "columns " : "rows ", select);
    };
    const otherAxes = this.shape.flatMap((length, axis) => {
      if (this.axes.includes(axis)) return [];
      const input = html("input", { type: "number", min: 0, max: length - 1, value: this.at[axis], "aria-label": `Index on axis ${axis}` });
      input.addEventListener("change", () => {
        this.at[axis] = Math.min(Math.max(Number(input.value) || 0, 0), length - 1);
        this.show();
      });
      return [html("label", { class: "group" }, `axis ${axis} at `, input, ` of ${length}`)];
    });
    const back = html("button", { type: "button", class: "small-button", onclick: () => this.zoomOut(), disabled: !this.windows.length }, "Zoom out");
    const extremesButton = html("button", { type: "button", class: "small-button", "aria-pressed": String(this.showsExtremes), title: "Show the value farthest from 0 in each cell, not the mean", onclick: () => { this.showsExtremes = !this.showsExtremes; this.show(); } }, "Extremes");
    this.bar.replaceChildren(html("h2", {}, "Heat map"), choose(0), choose(1), ...otherAxes, extremesButton, back);
  }

  /** Draw the cells and the scale of colors. */
  paint() {
    const { height, width, values, low, high } = this.answer;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    const [lowColor, zeroColor, highColor, emptyColor] = [color("--low"), color("--zero"), color("--high"), color("--line")];
    const maxAbs = Math.max(Math.abs(low ?? 0), Math.abs(high ?? 0)) || 1;
    const colorOf = (value) => {
      if (value === null) return emptyColor;
      const share = Math.min(Math.abs(value) / maxAbs, 1);
      return zeroColor.map((part, i) => part + ((value < 0 ? lowColor : highColor)[i] - part) * share);
    };
    const fill = (canvas, columns, rows, list) => {
      canvas.width = columns;
      canvas.height = rows;
      const pixels = new ImageData(columns, rows);
      list.forEach((value, i) => pixels.data.set([...colorOf(value), 255], 4 * i));
      canvas.getContext("2d").putImageData(pixels, 0, 0);
    };
    fill(this.canvas, width, height, values);
    // The cells of a long and thin slice are not square, so that they are visible.
    this.canvas.style.height = `${Math.round(Math.min(Math.max((this.canvas.clientWidth * height) / width, 28), 320))}px`;
    const strip = html("canvas", { "aria-hidden": "true" });
    fill(strip, 101, 1, Array.from({ length: 101 }, (_, i) => ((i - 50) / 50) * maxAbs));
    this.legend.replaceChildren(numberText(-maxAbs), strip, numberText(maxAbs));
    this.canvas.setAttribute("aria-label", `Heat map of ${height} by ${width} cells, from ${numberText(low)} to ${numberText(high)}`);
  }

  /** Select the cell at the mouse pointer. */
  selectCellAt(event) {
    const { height, width } = this.answer;
    const index = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
    this.cell = [index(event.offsetY / this.canvas.clientHeight, height), index(event.offsetX / this.canvas.clientWidth, width)];
    this.showStatus();
  }

  /** Return the part of the window that the selected cell represents: top, left, bottom, right. */
  block() {
    const { window: [top, left, bottom, right], height, width } = this.answer;
    const edge = (start, end, count, i) => start + Math.floor(((end - start) * i) / count);
    const [row, column] = this.cell;
    return [edge(top, bottom, height, row), edge(left, right, width, column), edge(top, bottom, height, row + 1), edge(left, right, width, column + 1)];
  }

  /** Show the indices and the value of the selected cell. */
  showStatus() {
    const [top, left, bottom, right] = this.block();
    const span = (start, end) => (end - start > 1 ? `${countText(start)}–${countText(end - 1)}` : countText(start));
    const value = this.answer.values[this.cell[0] * this.answer.width + this.cell[1]];
    const isOneElement = bottom - top === 1 && right - left === 1;
    const meaning = isOneElement ? "" : this.showsExtremes ? "farthest from 0 " : "mean ";
    this.status.textContent = `row ${span(top, bottom)}, column ${span(left, right)}: ${meaning}${value === null ? "not finite" : numberText(value)}`;
  }

  /** On each axis, show a quarter of the window around the selected cell, but at least 8 indices, or all if there are fewer. */
  zoomIn() {
    const { window: [top, left, bottom, right] } = this.answer;
    const [cellTop, cellLeft, cellBottom, cellRight] = this.block();
    const zoomedRange = (start, end, center) => {
      const length = Math.min(Math.max(Math.ceil((end - start) / 4), 8), end - start);
      const first = Math.min(Math.max(Math.round(center - length / 2), start), end - length);
      return [first, first + length];
    };
    const [rows, columns] = [zoomedRange(top, bottom, (cellTop + cellBottom) / 2), zoomedRange(left, right, (cellLeft + cellRight) / 2)];
    if (rows[0] === top && rows[1] === bottom && columns[0] === left && columns[1] === right) return;
    this.windows.push([rows[0], columns[0], rows[1], columns[1]]);
    this.show();
  }

  /** Show the previous window. */
  zoomOut() {
    if (this.windows.pop()) this.show();
  }

  handleKey(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (step) {
      const { height, width } = this.answer;
      this.cell = [Math.min(Math.max(this.cell[0] + step[0], 0), height - 1), Math.min(Math.max(this.cell[1] + step[1], 0), width - 1)];
      this.showStatus();
    } else if (event.key === "Enter") this.zoomIn();
    else if (event.key === "Escape" && this.windows.length) {
      event.stopPropagation();
      this.zoomOut();
    } else return;
    event.preventDefault();
  }
}
