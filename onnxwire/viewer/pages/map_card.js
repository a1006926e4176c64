// The card of the selected box on the map: its facts and actions. mapBox: a box of a scene, as `flatten` of map_scene.js returns it.
// box: a box of the server's answer, as `ModelMap.contents` of graph_map.py returns it. For a repeat, which is a box of several equal
// nodes or blocks (its members), `times` is their number, and `member_kind` their kind.

import { SIDE, countText, html, link, nounText, sizeText } from "./api.js";
import { marksText, operatorsOf, titleOf } from "./map_paint.js";

/** Return whether a box has contents. */
export const canOpen = (box) => box.number !== null && (box.kind !== "node" || box.opens);
/** Return whether opening a box shows one of several equal blocks; a box of equal nodes shows all of them. */
export const opensByMember = (box) => Boolean(box.times) && box.member_kind !== "node";

/** Return the kind of a box in words. */
export function kindText(box) {
  if (box.times) return `${countText(box.times)} equal ${box.member_kind === "node" ? "nodes" : "blocks"}`;
  return { scope: "group", run: "part", block: "block", node: "node", graph: "graph", function: "function", input: "graph input", output: "graph output" }[box.kind] ?? box.kind;
}

/** Return a text with the titles of the groups that contain a box, such as " in model › mlp"; on the map they may be invisible. */
function enclosingTitles(scene, mapBox) {
  const names = [];
  for (let frame = mapBox.frame; frame !== scene.root; ) {
    const outerBox = scene.boxes.find((candidate) => candidate.innerFrame === frame);
    names.unshift(outerBox.title ?? titleOf(outerBox.box));
    frame = outerBox.frame;
  }
  return names.length ? ` in ${names.join(" › ")}` : "";
}

const makeButton = (text, onclick, key) => html("button", { type: "button", class: "small-button", onclick, title: key && `Key: ${key}` }, text);
const factRow = (name, value) => (value ? [html("dt", {}, name), html("dd", {}, value)] : []);

/** Return the contents of the card for a box. Its buttons call methods of the map. */
export function describeBox(map, mapBox) {
  const { box } = mapBox;
  const edges = map.scene.edges.get(mapBox.frame);
  const types = (list) => [...new Set(list.flatMap(({ edge }) => edge.types))].slice(0, 3).join(", ");
  const actions = html("p", { class: "group" });
  if (canOpen(box)) actions.append(makeButton(mapBox.innerFrame ? "Close" : opensByMember(box) ? "Open one" : "Open", () => map.toggle(mapBox), "Enter"));
  if (opensByMember(box) && mapBox.innerFrame?.name !== mapBox.name) actions.append(makeButton(`Show all ${countText(box.times)}`, () => map.showAllMembers(mapBox), "A"));
  if (mapBox.member !== undefined) actions.append(makeButton("‹", () => map.showNextMember(mapBox, -1), "["), makeButton("›", () => map.showNextMember(mapBox, 1), "]"));
  if (box.kind === "node") {
    actions.append(link("node", box.path, "Details"));
    actions.append(makeButton(map.start ? (map.start.path === box.path ? "Cancel the route" : "Route to here") : "Route from here", () => map.setRouteEnd(mapBox), "P"));
  }
  return [
    html("h2", {}, titleOf(box)),
    html("p", { class: "note" }, `${kindText(box)}${enclosingTitles(map.scene, mapBox)}${mapBox.member === undefined ? "" : `, of which ${mapBox.title} is open`}`),
    html("dl", {},
      ...(box.kind === "node" ? factRow("name", box.label) : []),
      ...(box.nodes > 1 ? factRow("nodes", opensByMember(box) ? `${countText(box.nodes)} (${countText(box.nodes / box.times)} per block)` : countText(box.nodes)) : []),
      ...(box.nodes > 1 && box.operators ? factRow("operators", operatorsOf(box)) : []),
      ...(box.parameters ? factRow("parameters", `${countText(box.parameters)} (${sizeText(box.bytes)})`) : []),
      ...factRow("compared", box.kind === "node" ? Object.keys(box.marks ?? {}).join(", ") : marksText(box)),
      ...(box.type ? factRow("type", box.type) : []),
      ...(box.takes ? factRow("from outside", nounText(box.takes, "value")) : []),
      ...(box.gives ? factRow("to outside", nounText(box.gives, "value")) : []),
      ...(box.kind === "node" ? [] : factRow("inputs", types(edges.filter((edge) => edge.to === mapBox.name)))),
      ...(box.kind === "node" ? [] : factRow("outputs", types(edges.filter((edge) => edge.from === mapBox.name))))),
    box.kind === "node" ? html("div", { class: "of-node" }) : "",
    actions,
  ];
}

/** Return a button that shows the meaning of the colors. */
export function makeLegend() {
  const operators = { math: "arithmetic, matrices, convolution", norm: "normalization, pooling, reduction", act: "activation", move: "shapes, copies, constants", other: "other operators" };
  const marks = SIDE === null ? {} : { added: "added", removed: "removed", changed: "changed" };
  return html("details", { id: "map-legend" }, html("summary", { class: "small-button" }, "Colors"),
    html("ul", {}, ...Object.entries({ ...operators, ...marks }).map(([name, text]) => html("li", {}, html("span", { class: `op ${name}` }, "■ "), text))));
}

const MAX_LISTED_ITEMS = 8; // maximum number of listed attributes, inputs or outputs
const shorten = (text) => (text.length > 60 ? `${text.slice(0, 40)}…${text.slice(-18)}` : text);

/** Return short lists of the attributes, inputs and outputs of a node. */
export function describeNode(node) {
  const list = (title, entries, rowOf) => {
    if (!entries.length) return [];
    const omittedCount = entries.length - MAX_LISTED_ITEMS;
    return [html("h3", {}, title), html("dl", {}, ...entries.slice(0, MAX_LISTED_ITEMS).flatMap(rowOf), ...(omittedCount > 0 ? factRow("", `and ${countText(omittedCount)} more`) : []))];
  };
  const valueRow = (value) => [html("dt", { class: value.kind ?? "" }, html("bdi", {}, shorten(value.name) || "(omitted)")), html("dd", {}, value.kind === "weight" ? `weight ${value.type}` : value.type)];
  return [
    ...list("Attributes", node.attributes, (attribute) => [html("dt", {}, html("bdi", {}, shorten(attribute.name))), html("dd", {}, html("bdi", {}, shorten(attribute.text || attribute.links.map((attributeLink) => attributeLink.text).join(", "))))]),
    ...list("Inputs", node.inputs, valueRow),
    ...list("Outputs", node.outputs, valueRow),
  ];
}

/** Return the lines of the card about the highlighted route, and about the start of a new route. */
export function describeRoute(map) {
  const parts = [];
  if (map.start) parts.push(html("p", { class: "note" }, `A route begins at ${map.start.label}: select its end.`));
  if (map.route) parts.push(html("p", { class: "group" }, html("span", { class: "note" }, `Route of ${nounText(map.route.nodes, "node")}`), makeButton("Clear", () => map.setRoute(null))));
  return parts;
}
