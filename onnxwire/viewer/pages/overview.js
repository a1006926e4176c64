// The overview of the model, or of one of its graphs or functions.

import { ask, countText, familyOf, html, link, nounText, setChildren, shapeText, sizeText } from "./api.js";
import { bytesCard } from "./bytes.js";
import { addButton, editableValue, addMetadataButton, problemsCard, session } from "./edit_mode.js";
import { fieldsButton } from "./field_rows.js";

/** Show the overview of the model. isCurrent(): returns false if the user has opened another element in the meantime. */
export async function showOverview(details, isCurrent) {
  const summary = await ask("summary");
  if (!isCurrent()) return;
  const facts = [
    ["size", sizeText(summary.bytes)],
    ["IR version", editableField("IR version", summary.ir_version, "ir_version")],
    ["operator sets", opsetItems(summary.opset_import)],
    ["producer", session.is_editable
      ? [editableField("producer", summary.producer_name, "producer_name"), " ", editableField("producer version", summary.producer_version, "producer_version")]
      : `${summary.producer_name} ${summary.producer_version}`.trim() || "–"],
    ["graph", editableField("graph", summary.graph.name, "graph.name")],
    ["nodes", countText(summary.nodes.count)],
    ["tensors", `${countText(summary.tensors.count)} (${sizeText(summary.tensors.bytes)})${summary.tensors.external ? `, ${countText(summary.tensors.external)} in other files` : ""}`],
    ["doc", summary.doc_string || session.is_editable ? editableField("doc", summary.doc_string, "doc_string") : ""],
    ...summary.metadata_props.map((entry, i) => [entry.key, editableValue(entry.value, { label: entry.key, path: `metadata_props[${i}]`, removal: `metadata_props[${i}]` })]),
  ].filter(([, value]) => value);
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, summary.file.split(/[\\/]/).pop()), html("span", { class: "actions" }, fieldsButton(""))),
    problemsCard(""),
    html("div", { class: "pair" },
      html("section", { class: "card" }, html("h2", {}, "Model"), html("dl", {}, ...facts.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, ...[value].flat())])), addMetadataButton("")),
      html("section", { class: "card" }, valuesTable("Inputs", summary.graph.inputs, "graph.input"), html("p", {}), valuesTable("Outputs", summary.graph.outputs, "graph.output"))),
    html("div", { class: "pair" }, operatorsCard(summary.nodes.by_operator), largestTensorsCard(summary.tensors.largest)),
    bytesCard(""),
  );
}

/** Return the value of a field; in edit mode, with a button that opens a form. */
const editableField = (label, value, path) => editableValue(String(value || "–"), { label, path });

/** Return the imported operator sets; in edit mode, with a button that imports another operator set. */
function opsetItems(imports) {
  const items = imports.flatMap((opset, i) => {
    const name = opset.domain || "ai.onnx";
    return [i ? ", " : "", editableValue(`${name} ${opset.version}`, { label: `version of ${name}`, path: `opset_import[${i}]`, removal: `opset_import[${i}]` })];
  });
  const button = addButton("Import an operator set", {
    fields: [{ name: "domain", label: "domain", hint: "Empty for ai.onnx." }, { name: "version", label: "version" }],
    toChange: ({ domain, version }) => ["add_opset", { domain, version: Number(version) }],
  });
  return [...(items.length ? items : ["–"]), button];
}

/** Return a heading and a table of the names and types of inputs or outputs. path: the path of the list. */
function valuesTable(title, list, path) {
  const name = (value) => editableValue(value.name, { label: `value ${value.name}`, path: value.path ?? path, value: value.name, toChange: ({ value: text }) => ["rename_value", { path: "graph", name: value.name, new: text }] });
  return [html("h2", {}, `${title} (${list.length})`), html("table", {}, ...list.map((value) => html("tr", {}, html("td", {}, name(value)), html("td", { class: "note mono" }, editableValue(value.type || "–", { label: `type of ${value.name}`, path: value.path })))))];
}

/** Return a cell with a bar. share: the length of the bar as a share of the cell's width. */
function barCell(share) {
  const bar = html("div", { class: "meter" });
  bar.style.width = `${100 * share}%`;
  return html("td", { class: "bars" }, bar);
}

const MAX_LISTED_OPERATORS = 24;

/** Return a card with the most frequent operators and their counts. */
function operatorsCard(rows) {
  const maxCount = Math.max(...rows.map((row) => row.count), 1);
  return html("section", { class: "card", id: "operators" }, html("h2", {}, "Operators"), html("table", {}, ...rows.slice(0, MAX_LISTED_OPERATORS).map((row) =>
    html("tr", {}, html("td", {}, html("span", { class: familyOf(row.op_type) }, row.op_type), row.domain ? html("span", { class: "note" }, ` ${row.domain}`) : ""), html("td", { class: "number" }, countText(row.count)), barCell(row.count / maxCount)))),
    rows.length > MAX_LISTED_OPERATORS ? html("p", { class: "note" }, `and ${nounText(rows.length - MAX_LISTED_OPERATORS, "more operator")}`) : "");
}

/** Return a card with links to the largest tensors. */
function largestTensorsCard(rows) {
  const maxBytes = Math.max(...rows.map((row) => row.bytes), 1);
  return html("section", { class: "card" }, html("h2", {}, "Largest tensors"), html("table", {}, ...rows.map((row) =>
    html("tr", {}, html("td", {}, link("tensor", row.path, row.name || row.path), html("div", { class: "note mono" }, shapeText(row))), html("td", { class: "number" }, sizeText(row.bytes)), barCell(row.bytes / maxBytes)))));
}

/** Show a graph or function. row: its row in the outline. */
export function showGraph(row, details) {
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, row.name || row.path), html("span", { class: "sub" }, row.of ? `${row.kind} of ${row.of}` : row.kind), html("span", { class: "actions" }, fieldsButton(row.path))),
    problemsCard(row.path),
    html("section", { class: "card" }, html("dl", {}, html("dt", {}, "nodes"), html("dd", {}, countText(row.nodes)), html("dt", {}, "initializers"), html("dd", {}, countText(row.tensors)), html("dt", {}, "path"), html("dd", { class: "mono" }, row.path))),
    bytesCard(row.path),
  );
}
