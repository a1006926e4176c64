// Two models side by side, and the list of their differences.

import { ask, startSession, countText, html, nounText } from "./api.js";

const MAX_SHOWN_ROWS = 500; // maximum number of rows in the table
const elementById = (id) => document.getElementById(id);
const signs = { added: "+", removed: "−", changed: "~", rewired: "~", renamed: "~" };
let rows = []; // the listed differences; their fields: see ModelComparison.comparison in model_comparison.py

function showError(error) {
  elementById("trouble").textContent = error.message;
  elementById("trouble").hidden = false;
}

/** Add a frame for each model, with the page of the model. */
function addFrames() {
  for (const [side, name] of [["0", "first model"], ["1", "second model"]]) {
    elementById("models").append(html("iframe", { id: `side-${side}`, title: name, src: `index.html?side=${side}#map=graph` }));
  }
}

/** Select a node in a frame. path: the path of the node in the model of the frame; "" leaves the selection unchanged. */
function select(side, path) {
  const frameWindow = elementById(`side-${side}`).contentWindow;
  if (path) frameWindow.location.hash = `map=${encodeURIComponent(path)}`;
}

/** Select a line of the table, and its node in both frames. */
function selectDifference(line, row) {
  for (const selectedLine of elementById("table").querySelectorAll("[aria-selected]")) selectedLine.removeAttribute("aria-selected");
  line.setAttribute("aria-selected", "true");
  select("0", row.left);
  select("1", row.right);
}

/** Return the line of the table for a difference. The line can be selected if the difference has the path of a node. */
function makeLine(row) {
  const nameParts = row.change === "renamed" ? [row.name] : [`${row.kind} `, html("bdi", {}, row.name)];
  const isNode = Boolean(row.left || row.right);
  const line = html("tr", { class: row.change, tabindex: isNode ? 0 : null },
    html("td", { class: "mono", title: row.change }, signs[row.change] ?? "~"),
    html("td", {}, row.change === "renamed" ? "renamed: " : "", ...nameParts, row.part && html("span", { class: "note" }, ` ${row.part}`)),
    html("td", { class: "mono" }, html("bdi", {}, row.old)), html("td", { class: "mono" }, html("bdi", {}, row.new)),
    html("td", {}, row.distance));
  if (isNode) {
    line.addEventListener("click", () => selectDifference(line, row));
    line.addEventListener("keydown", (event) => {
      const nextLine = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
      if (event.key === "Enter") selectDifference(line, row);
      else if (nextLine) nextLine.focus();
      else return;
      event.preventDefault();
    });
  }
  return line;
}

/** Show the first differences that contain all words of the search. */
function paint() {
  const searchWords = elementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (row) => `${row.change} ${row.kind} ${row.name} ${row.part} ${row.old} ${row.new}`.toLowerCase();
  const matches = rows.filter((row) => searchWords.every((word) => text(row).includes(word)));
  const shownRows = matches.slice(0, MAX_SHOWN_ROWS);
  elementById("table").replaceChildren(html("table", {},
    html("tr", {}, ...["", "element", "first", "second", "weights"].map((name) => html("th", {}, name))), ...shownRows.map(makeLine)),
    matches.length > shownRows.length ? html("p", { class: "note" }, `and ${countText(matches.length - shownRows.length)} more`) : "");
}

addEventListener("unhandledrejection", (event) => showError(event.reason));
try {
  await startSession();
  addFrames();
  const answer = await ask("comparison");
  ({ rows } = answer);
  const names = answer.files.map((file) => file.split(/[\\/]/).pop());
  document.title = `${names.join(" – ")} – onnxwire`;
  elementById("total").textContent = answer.total ? nounText(answer.total, "difference") : "No difference";
  const omittedText = answer.total > rows.length ? `; the first ${countText(rows.length)} are listed` : "";
  elementById("counts").textContent = Object.entries(answer.counts).map(([name, count]) => `${countText(count)} ${name}`).join(", ") + omittedText;
  elementById("search").addEventListener("input", paint);
  paint();
  // Maps that were drawn before the comparison ended are drawn again, with the colors of the differences.
  for (const side of ["0", "1"]) elementById(`side-${side}`).contentDocument.documentElement.dispatchEvent(new Event("compared"));
  document.body.dataset.ready = "yes";
} catch (error) {
  elementById("total").textContent = "The models could not be compared";
  showError(error);
}
