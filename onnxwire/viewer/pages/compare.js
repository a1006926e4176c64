// Two models side by side, and the list of their differences.

import { ask, begin, countText, html, nounText } from "./api.js";

const MAX_SHOWN = 500; // rows of the table at a time
const find = (id) => document.getElementById(id);
const signs = { added: "+", removed: "−", changed: "~", rewired: "~", renamed: "~" };
let rows = [];

function showError(error) {
  find("trouble").textContent = error.message;
  find("trouble").hidden = false;
}

/** Each model has its own page in a frame: the map, its nodes and its tensors. */
function addFrames() {
  for (const [side, name] of [["0", "first model"], ["1", "second model"]]) {
    find("models").append(html("iframe", { id: `side-${side}`, title: name, src: `index.html?side=${side}#map=graph` }));
  }
}

/** Select a node in a frame; a model without the node stays as it is. */
function select(side, path) {
  const inner = find(`side-${side}`).contentWindow;
  if (path) inner.location.hash = `map=${encodeURIComponent(path)}`;
}

function choose(line, row) {
  for (const other of find("table").querySelectorAll("[aria-selected]")) other.removeAttribute("aria-selected");
  line.setAttribute("aria-selected", "true");
  select("0", row.left);
  select("1", row.right);
}

function lineOf(row) {
  const words = row.change === "renamed" ? [row.name] : [`${row.kind} `, html("bdi", {}, row.name)];
  const isNode = Boolean(row.left || row.right);
  const line = html("tr", { class: row.change, tabindex: isNode ? 0 : null },
    html("td", { class: "mono", title: row.change }, signs[row.change] ?? "~"),
    html("td", {}, row.change === "renamed" ? "renamed: " : "", ...words, row.part && html("span", { class: "note" }, ` ${row.part}`)),
    html("td", { class: "mono" }, html("bdi", {}, row.old)), html("td", { class: "mono" }, html("bdi", {}, row.new)),
    html("td", {}, row.distance));
  if (isNode) {
    line.addEventListener("click", () => choose(line, row));
    line.addEventListener("keydown", (event) => {
      const next = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
      if (event.key === "Enter") choose(line, row);
      else if (next) next.focus();
      else return;
      event.preventDefault();
    });
  }
  return line;
}

function paint() {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (row) => `${row.change} ${row.kind} ${row.name} ${row.part} ${row.old} ${row.new}`.toLowerCase();
  const chosen = rows.filter((row) => words.every((word) => text(row).includes(word)));
  const shown = chosen.slice(0, MAX_SHOWN);
  find("table").replaceChildren(html("table", {},
    html("tr", {}, ...["", "element", "first", "second", "weights"].map((name) => html("th", {}, name))), ...shown.map(lineOf)),
    chosen.length > shown.length ? html("p", { class: "note" }, `and ${countText(chosen.length - shown.length)} more`) : "");
}

addEventListener("unhandledrejection", (event) => showError(event.reason));
try {
  await begin();
  addFrames();
  const answer = await ask("comparison");
  ({ rows } = answer);
  const names = answer.files.map((file) => file.split(/[\\/]/).pop());
  document.title = `${names.join(" – ")} – onnxwire`;
  find("total").textContent = answer.total ? nounText(answer.total, "difference") : "No difference";
  const more = answer.total > rows.length ? `; the first ${countText(rows.length)} are listed` : "";
  find("counts").textContent = Object.entries(answer.counts).map(([name, count]) => `${countText(count)} ${name}`).join(", ") + more;
  find("search").addEventListener("input", paint);
  paint();
  // Maps that were drawn before the comparison was done are drawn again, with colors.
  for (const side of ["0", "1"]) find(`side-${side}`).contentDocument.documentElement.dispatchEvent(new Event("compared"));
  document.body.dataset.ready = "yes";
} catch (error) {
  find("total").textContent = "The models could not be compared";
  showError(error);
}
