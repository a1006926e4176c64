// The card of the selected box on the map: its facts and actions.

import { SIDE, countText, html, link, nounText, sizeText } from "./api.js";
import { marksText, operatorsOf, titleOf } from "./map_paint.js";

export const canOpen = (box) => box.number !== null && (box.kind !== "node" || box.opens);
/** Whether a box opens as one of several equal blocks; equal nodes all open together. */
export const opensByMember = (box) => Boolean(box.times) && box.of !== "node";

export function kindText(box) {
  if (box.times) return `${countText(box.times)} equal ${box.of === "node" ? "nodes" : "blocks"}`;
  return { scope: "group", run: "part", block: "block", node: "node", graph: "graph", function: "function", input: "graph input", output: "graph output" }[box.kind] ?? box.kind;
}

/** The titles of the groups that contain a box, which may be outside of the visible part. */
function trailOf(scene, one) {
  const names = [];
  for (let frame = one.frame; frame !== scene.root; ) {
    const around = scene.boxes.find((other) => other.inner === frame);
    names.unshift(around.title ?? titleOf(around.box));
    frame = around.frame;
  }
  return names.length ? ` in ${names.join(" › ")}` : "";
}

const button = (text, onclick, key) => html("button", { type: "button", class: "step", onclick, title: key && `Key: ${key}` }, text);
const row = (name, value) => (value ? [html("dt", {}, name), html("dd", {}, value)] : []);

/** The contents of the card for a box; its actions are methods of the map. */
export function describe(map, one) {
  const { box } = one;
  const ends = map.scene.edges.get(one.frame);
  const types = (list) => [...new Set(list.flatMap(({ edge }) => edge.types))].slice(0, 3).join(", ");
  const act = html("p", { class: "group" });
  if (canOpen(box)) act.append(button(one.inner ? "Close" : opensByMember(box) ? "Open one" : "Open", () => map.toggle(one), "Enter"));
  if (opensByMember(box) && one.inner?.name !== one.name) act.append(button(`Show all ${countText(box.times)}`, () => map.spread(one), "A"));
  if (one.member !== undefined) act.append(button("‹", () => map.step(one, -1), "["), button("›", () => map.step(one, 1), "]"));
  if (box.kind === "node") {
    act.append(link("node", box.path, "Details"));
    act.append(button(map.start ? (map.start.path === box.path ? "No path" : "Path to here") : "Path from here", () => map.setPathEnd(one), "P"));
  }
  return [
    html("h2", {}, titleOf(box)),
    html("p", { class: "note" }, `${kindText(box)}${one.member === undefined ? "" : `, of which ${one.title} is open`}${trailOf(map.scene, one)}`),
    html("dl", {},
      ...(box.kind === "node" ? row("name", box.label) : []),
      ...(box.nodes > 1 ? row("nodes", opensByMember(box) ? `${countText(box.nodes)} (${countText(box.nodes / box.times)} per block)` : countText(box.nodes)) : []),
      ...(box.nodes > 1 && box.operators ? row("operators", operatorsOf(box)) : []),
      ...(box.parameters ? row("parameters", `${countText(box.parameters)} (${sizeText(box.bytes)})`) : []),
      ...row("compared", box.kind === "node" ? Object.keys(box.marks ?? {}).join(", ") : marksText(box)),
      ...(box.type ? row("type", box.type) : []),
      ...(box.takes ? row("from outside", nounText(box.takes, "value")) : []),
      ...(box.gives ? row("to outside", nounText(box.gives, "value")) : []),
      ...(box.kind === "node" ? [] : row("inputs", types(ends.filter((edge) => edge.to === one.name)))),
      ...(box.kind === "node" ? [] : row("outputs", types(ends.filter((edge) => edge.from === one.name))))),
    box.kind === "node" ? html("div", { class: "of-node" }) : "",
    act,
  ];
}

/** The meaning of the colors, behind a button. */
export function legend() {
  const operators = { math: "arithmetic, matrices, convolution", norm: "normalization, pooling, reduction", act: "activation", move: "shapes, copies, constants", other: "other operators" };
  const marks = SIDE === null ? {} : { added: "added", removed: "removed", changed: "changed" };
  return html("details", { id: "map-legend" }, html("summary", { class: "step" }, "Colors"),
    html("ul", {}, ...Object.entries({ ...operators, ...marks }).map(([name, text]) => html("li", {}, html("span", { class: `op ${name}` }, "■ "), text))));
}

const MAX_LISTED = 8; // maximum number of listed attributes, inputs or outputs
const short = (text) => (text.length > 60 ? `${text.slice(0, 40)}…${text.slice(-18)}` : text);

/** The attributes, inputs and outputs of a node, in short: weights with their shapes. */
export function describeNode(node) {
  const list = (title, all, rowOf) => {
    if (!all.length) return [];
    const rest = all.length - MAX_LISTED;
    return [html("h3", {}, title), html("dl", {}, ...all.slice(0, MAX_LISTED).flatMap(rowOf), ...(rest > 0 ? row("", `and ${countText(rest)} more`) : []))];
  };
  const value = (one) => [html("dt", { class: one.kind ?? "" }, html("bdi", {}, short(one.name) || "(omitted)")), html("dd", {}, one.kind === "weight" ? `weight ${one.type}` : one.type)];
  return [
    ...list("Attributes", node.attributes, (one) => [html("dt", {}, html("bdi", {}, short(one.name))), html("dd", {}, html("bdi", {}, short(one.text || one.links.map((link) => link.text).join(", "))))]),
    ...list("Inputs", node.inputs, value),
    ...list("Outputs", node.outputs, value),
  ];
}

/** The card's lines about the highlighted path, or the start of a path. */
export function describePath(map) {
  const parts = [];
  if (map.start) parts.push(html("p", { class: "note" }, `A path begins at ${map.start.label}: select its end.`));
  if (map.route) parts.push(html("p", { class: "group" }, html("span", { class: "note" }, `Path of ${nounText(map.route.nodes, "node")}`), button("Clear", () => map.light(null))));
  return parts;
}
