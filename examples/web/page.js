/** Opens a file or an address, lists the model, and shows the rows. Everything from a file is inserted as text, not as HTML. */
import {AddressSource, FileSource, loadModule, Reader} from "./onnxwire.js";
import {LimitError, listModel, newListing} from "./listing.js";

/** @type {(id: string) => any} */
const element = (id) => document.getElementById(id);
const FIRST_ROWS = 200; // maximum number of rows that are shown at first
const MORE_ROWS = 1000; // number of rows that a click on the button `more` adds
const REPORT_MS = 400; // minimum time between two updates of the page while a model is read
const NUMBER_FORMAT = new Intl.NumberFormat("en");

let listing = newListing();
let tab = "nodes"; // or "tensors"
let maxShownRows = FIRST_ROWS;
/** Aborts the reading of the current model. @type {AbortController} */
let current = new AbortController();

/** Replaces control, invisible and direction-changing characters (these ranges) by escapes such as \u{200b}. @param {string} text */
const escapeInvisible = (text) =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) =>
    `\\u{${c.charCodeAt(0).toString(16)}}`);

/** Makes an element that contains a text. @param {string} name @param {string} [text] @param {string} [className] */
function makeElement(name, text = "", className = "") {
  const result = document.createElement(name);
  result.textContent = escapeInvisible(text);
  result.className = className;
  return result;
}

/** Formats a number of bytes: 1.5 KiB. @param {number} bytes */
function sizeText(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 5; unit++) bytes /= 1024;
  return `${unit && bytes < 100 ? bytes.toFixed(1) : NUMBER_FORMAT.format(Math.round(bytes))} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

/** Formats a number with a noun: 1 node, 1,204 nodes. @param {number} count @param {string} noun */
const countText = (count, noun) => `${NUMBER_FORMAT.format(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Joins names by commas, with "(none)" for an empty name; "…" means that more names exist. @param {string[]} names @param {number} count number of all names */
const joinNames = (names, count) => names.map((name) => name || "(none)").join(", ") + (count > names.length ? ", …" : "");

/** The headings of the tables. */
const COLUMNS = {
  nodes: ["", "Operator", "Name", "Inputs", "Outputs"],
  tensors: ["Name", "Type", "Dims", "Size", "Stored", "Where"],
};

/** @param {import("./listing.js").NodeRow} row */
function nodeCells(row) {
  const operator = makeElement("td", "", "name");
  if (row.domain) operator.append(makeElement("span", `${row.domain}::`, "domain"));
  operator.append(makeElement("span", row.operator, "operator"));
  if (row.graph) operator.append(makeElement("div", `in ${row.graph}`, "domain"));
  return [
    makeElement("td", String(row.index), "number soft"), operator, makeElement("td", row.name, "mono name"),
    makeElement("td", joinNames(row.inputs, row.nInputs), "mono"),
    makeElement("td", joinNames(row.outputs, row.nOutputs), "mono name"),
  ];
}

/** @param {import("./listing.js").TensorRow} row */
function tensorCells(row) {
  if (row.problem) {
    const problem = makeElement("td", row.problem, "bad");
    problem.setAttribute("colspan", "4");
    return [makeElement("td", row.name, "mono name"), problem, makeElement("td", row.where, "soft mono")];
  }
  return [
    makeElement("td", row.name, "mono name"), makeElement("td", row.type),
    makeElement("td", row.dims || "scalar", row.dims ? "mono" : "soft"),
    makeElement("td", sizeText(row.bytes), "number"),
    makeElement("td", row.stored, row.stored === "inline" ? "soft" : "mono"),
    makeElement("td", row.where, "soft mono"),
  ];
}

/** @param {any} row */
const searchText = (row) =>
  (tab === "nodes" ? [row.operator, row.domain, row.name, row.graph, ...row.inputs, ...row.outputs]
    : [row.name, row.type, row.dims, row.stored, row.where]).join("\n").toLowerCase();

/** Shows the rows of the current tab that contain the filter's text, up to `maxShownRows`, and the numbers of rows. */
function show() {
  const filterText = element("filter").value.trim().toLowerCase();
  /** @type {any[]} */ const all = tab === "nodes" ? listing.nodes : listing.tensors;
  const rows = filterText ? all.filter((row) => searchText(row).includes(filterText)) : all;
  const head = makeElement("tr");
  head.append(...(tab === "nodes" ? COLUMNS.nodes : COLUMNS.tensors).map((name) => makeElement("th", name, name === "Size" ? "number" : "")));
  element("list").querySelector("thead").replaceChildren(head);
  element("list").querySelector("tbody").replaceChildren(...rows.slice(0, maxShownRows).map((row) => {
    const line = makeElement("tr");
    line.append(...(tab === "nodes" ? nodeCells(row) : tensorCells(row)));
    return line;
  }));
  const count = Math.min(maxShownRows, rows.length);
  element("count").textContent = rows.length === 0 ? (filterText ? "No row contains this text." : "None.")
    : count < rows.length ? `${NUMBER_FORMAT.format(count)} of ${NUMBER_FORMAT.format(rows.length)} rows.` : "";
  element("more").hidden = count === rows.length;
  element("nodes-tab").textContent = countText(listing.nodes.length, "node");
  element("tensors-tab").textContent = countText(listing.tensors.length, "tensor");
  for (const name of ["nodes", "tensors"]) element(`${name}-tab`).setAttribute("aria-selected", String(name === tab));
}

/** Shows the facts about the model. @param {number} size size of the file in bytes */
function showFacts(size) {
  const total = listing.tensors.reduce((sum, row) => sum + row.bytes, 0);
  const facts = {
    "Size": sizeText(size), "Tensors": sizeText(total), "Graph": listing.name, "Producer": listing.producer,
    "IR version": listing.irVersion, "Operator sets": listing.opsets.join(", "),
  };
  element("facts").replaceChildren(...Object.entries(facts).filter(([, text]) => text).map(([name, text]) => {
    const pair = makeElement("div");
    pair.append(makeElement("dt", name), makeElement("dd", text));
    return pair;
  }));
}

/** Asks a question in the dialog. @param {string} question @returns {Promise<boolean>} */
function confirm(question) {
  const dialog = element("confirm");
  element("question").textContent = escapeInvisible(question);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), {once: true}));
}

/** Opens and lists a model. @param {string} name @param {(signal: AbortSignal) => Promise<any>} openSource */
async function open(name, openSource) {
  current.abort();
  const controller = (current = new AbortController());
  const isCurrent = () => controller === current;
  element("problem").hidden = true;
  element("model").hidden = true;
  element("status").textContent = "Opening …";
  document.body.dataset.state = "reading";
  const rows = newListing();
  /** @type {Reader | null} */ let reader = null;
  const report = () => {
    if (!isCurrent() || !reader) return;
    listing = rows;
    element("model").hidden = false;
    element("name").textContent = escapeInvisible(name);
    showFacts(reader.source.size);
    show();
    const all = sizeText(reader.source.size);
    element("status").textContent = `Read ${sizeText(reader.bytesRead)} of ${all}${controller.signal.aborted ? ", then stopped" : ""}.`;
  };
  let problemText = "";
  try {
    const source = await openSource(controller.signal);
    reader = await Reader.open(source, await loadModule());
    maxShownRows = FIRST_ROWS;
    element("stop").hidden = false;
    let reported = 0;
    await listModel(reader, async () => {
      if (performance.now() - reported > REPORT_MS) {
        report();
        reported = performance.now();
      }
      await new Promise((resolve) => setTimeout(resolve)); // lets the page respond
      controller.signal.throwIfAborted();
    }, rows);
  } catch (error) {
    if (error instanceof LimitError) problemText = `${error.message} Only the first part is shown.`;
    else if (!controller.signal.aborted) problemText = `${/** @type {Error} */ (error).message || error}`;
  }
  if (!isCurrent()) return;
  element("status").textContent = "";
  report();
  element("stop").hidden = true;
  element("problem").hidden = !problemText;
  element("problem").textContent = escapeInvisible(problemText && !problemText.endsWith(".") ? `${problemText}.` : problemText);
  document.body.dataset.state = problemText ? "problem" : "done";
}

/** @param {File | undefined} file */
const openFile = (file) => file && open(file.name, async () => new FileSource(file));

/** Opens the address in the form, after a confirmation if it is on another host. */
async function openAddress() {
  let address;
  try {
    address = new URL(element("address").value.trim(), location.href);
  } catch {
    address = null;
  }
  if (!address || !["http:", "https:"].includes(address.protocol) || address.username || address.password) {
    element("problem").hidden = false;
    element("problem").textContent = "Enter an address that begins with https:// or http://, without a user name or password.";
    return;
  }
  const {host} = address;
  if (host !== location.host && !(await confirm(
    `This page asks ${host} for parts of the file. That computer then knows your IP address, and which file you read.`,
  ))) return;
  const confirmRedirect = () => confirm(
    `${host} redirects to another address, which this page learns only by sending a request there. Send the request?`,
  );
  await open(address.pathname.split("/").pop() || host, (signal) =>
    AddressSource.open(address.href, {signal, confirmRedirect}));
}

element("file").addEventListener("change", () => {
  openFile(element("file").files[0]);
  element("file").value = ""; // lets the user choose the same file again
});
element("address-form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  openAddress();
});
for (const name of ["dragover", "dragleave", "drop"])
  document.addEventListener(name, (/** @type {any} */ event) => {
    event.preventDefault();
    element("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") openFile(event.dataTransfer.files[0]);
  });
element("stop").addEventListener("click", () => current.abort());
element("filter").addEventListener("input", () => {
  maxShownRows = FIRST_ROWS;
  show();
});
element("more").addEventListener("click", () => {
  maxShownRows += MORE_ROWS;
  show();
});
for (const name of ["nodes", "tensors"])
  element(`${name}-tab`).addEventListener("click", () => {
    tab = name;
    maxShownRows = FIRST_ROWS;
    show();
  });
document.body.dataset.state = "ready";
