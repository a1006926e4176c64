// The model as a whole, or one of its graphs.

import { ask, countText, familyOf, html, link, nounText, shapeText, sizeText } from "./api.js";
import { bytesCard } from "./bytes.js";

export async function showOverview(details, isCurrent) {
  const summary = await ask("summary");
  if (!isCurrent()) return;
  const opsets = summary.opset_import.map((opset) => `${opset.domain || "ai.onnx"} ${opset.version}`).join(", ");
  const facts = [
    ["size", sizeText(summary.bytes)],
    ["IR version", summary.ir_version],
    ["operator sets", opsets || "–"],
    ["producer", `${summary.producer_name} ${summary.producer_version}`.trim() || "–"],
    ["graph", summary.graph.name || "–"],
    ["nodes", countText(summary.nodes.count)],
    ["tensors", `${countText(summary.tensors.count)} (${sizeText(summary.tensors.bytes)})${summary.tensors.external ? `, ${countText(summary.tensors.external)} in other files` : ""}`],
    ["doc", summary.doc_string],
    ...summary.metadata_props.map((entry) => [entry.key, entry.value]),
  ].filter(([, value]) => value);
  details.replaceChildren(
    html("div", { class: "head" }, html("h1", {}, summary.file.split(/[\\/]/).pop())),
    html("div", { class: "pair" },
      html("section", { class: "card" }, html("h2", {}, "Model"), html("dl", {}, ...facts.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, String(value))]))),
      html("section", { class: "card" }, values("Inputs", summary.graph.inputs), html("p", {}), values("Outputs", summary.graph.outputs))),
    html("div", { class: "pair" }, operators(summary.nodes.by_operator), largest(summary.tensors.largest)),
    await bytesCard(""),
  );
}

function values(title, list) {
  return [html("h2", {}, `${title} (${list.length})`), html("table", {}, ...list.map((value) => html("tr", {}, html("td", {}, value.name), html("td", { class: "note mono" }, value.type))))];
}

function meter(share) {
  const bar = html("div", { class: "meter" });
  bar.style.width = `${100 * share}%`;
  return html("td", { class: "bars" }, bar);
}

function operators(rows) {
  const most = Math.max(...rows.map((row) => row.count), 1);
  return html("section", { class: "card", id: "operators" }, html("h2", {}, "Operators"), html("table", {}, ...rows.slice(0, 24).map((row) =>
    html("tr", {}, html("td", {}, html("span", { class: familyOf(row.op_type) }, row.op_type), row.domain ? html("span", { class: "note" }, ` ${row.domain}`) : ""), html("td", { class: "number" }, countText(row.count)), meter(row.count / most)))),
    rows.length > 24 ? html("p", { class: "note" }, `and ${nounText(rows.length - 24, "more operator")}`) : "");
}

function largest(rows) {
  const most = Math.max(...rows.map((row) => row.bytes), 1);
  return html("section", { class: "card" }, html("h2", {}, "Largest tensors"), html("table", {}, ...rows.map((row) =>
    html("tr", {}, html("td", {}, link("tensor", row.path, row.name || row.path), html("div", { class: "note mono" }, shapeText(row))), html("td", { class: "number" }, sizeText(row.bytes)), meter(row.bytes / most)))));
}

/** A graph or function that was chosen in the outline. */
export async function showGraph(row, details) {
  details.replaceChildren(
    html("div", { class: "head" }, html("h1", {}, row.name || row.path), html("span", { class: "sub" }, row.of ? `${row.kind} of ${row.of}` : row.kind)),
    html("section", { class: "card" }, html("dl", {}, html("dt", {}, "nodes"), html("dd", {}, countText(row.nodes)), html("dt", {}, "tensors"), html("dd", {}, countText(row.tensors)), html("dt", {}, "path"), html("dd", { class: "mono" }, row.path))),
    await bytesCard(row.path),
  );
}
