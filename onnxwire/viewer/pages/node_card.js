// The details of a node: documentation, the graph around it, inputs, outputs, attributes and notes; the dialog that deletes a node.

import { ask, countText, familyOf, html, link, nameParts, nounText, setChildren, svg } from "./api.js";
import { bytesCard } from "./bytes.js";
import { actionButton, addButton, change, editableValue, markButton, addMetadataButton, openDialog, problemsCard, session } from "./edit_mode.js";
import { fieldsButton } from "./field_rows.js";

let hops = 2; // number of steps from the node in the drawing; kept for the next node
const MIN_SCALE = 0.7; // minimum scale at which the drawing is legible
const DETAILS_MARGINS = 84; // total width in pixels of the space at the left and right of the drawing, in the card and in the details
const MIN_STEP = 8; // in pixels; an arrow key skips boxes that are at most this far in its direction, such as boxes of the same row
const TEXT_TYPES = ["FLOAT", "INT", "STRING", "FLOATS", "INTS", "STRINGS"]; // types of attributes that can be entered as text

/** Return a card with the documentation of an operator. The documentation is fetched when the card is first opened. */
function documentationCard(path, opType) {
  const text = html("p", { class: "documentation" }, "reading…");
  const card = html("details", { class: "card" }, html("summary", {}, `Documentation of ${opType || "the operator"}`), text);
  card.addEventListener("toggle", async () => {
    const answer = await ask("documentation", { path });
    text.textContent = answer.text || "The onnx package is not installed, or does not know this operator.";
    if (answer.version) card.firstChild.append(html("span", { class: "note" }, ` since version ${answer.version}`));
  }, { once: true });
  return card;
}

/** Show the details of a node and return the node, or null if isCurrent() is false: the user has opened another element. */
export async function showNode(path, details, isCurrent) {
  const [node, drawing] = await Promise.all([ask("node", { path }), ask("around", { path, hops })]);
  if (!isCurrent()) return null;
  const picture = html("div", { class: "drawing" });
  const stepButtons = html("div", { class: "group", role: "group", "aria-label": "Steps from the node" });
  const setHops = async (count) => {
    hops = count;
    picture.replaceChildren(drawGraph(await ask("around", { path, hops })));
    scrollToFocus(picture);
    paintSteps();
  };
  const paintSteps = () =>
    stepButtons.replaceChildren(
      ...[1, 2, 3, 4].map((count) =>
        html("button", { type: "button", class: "small-button", "aria-pressed": String(count === hops), "aria-label": nounText(count, "step"), onclick: () => setHops(count) }, String(count)),
      ),
    );
  paintSteps();
  picture.append(drawGraph(drawing));
  setChildren(details,
    html(
      "div",
      { class: "head" },
      html("h1", { class: familyOf(node.op_type) }, editableValue(node.op_type || "(no operator)", { label: "operator", path: `${path}.op_type` })),
      html("span", { class: "sub" }, editableValue(node.name || (session.is_editable ? "(no name)" : ""), { label: "name", path, value: node.name, toChange: ({ value }) => ["rename_node", { path, name: value }] })),
      node.domain && html("span", { class: "note" }, editableValue(node.domain, { label: "domain", path: `${path}.domain` })),
      html("span", { class: "actions" }, markButton(node), fieldsButton(path), actionButton("Delete…", () => deleteNode(node))),
    ),
    problemsCard(path),
    documentationCard(path, node.op_type),
    html("section", { class: "card", "aria-label": "Graph around the node" },
      html("div", { class: "bar" }, html("h2", {}, "Around this node"), html("span", { class: "note" }, "steps"), stepButtons), picture),
    html("div", { class: "pair" }, inputsCard(node), outputsCard(node)),
    node.attributes.length || session.is_editable ? attributesCard(node) : "",
    notesCard(node),
    bytesCard(path),
  );
  scrollToFocus(picture);
  return node;
}

/**
 * In edit mode, return an element with a button. The button opens a form that renames a value and all its uses. On a read-only page,
 * and for an empty name, there is no button. element: shows the name. node: the node that uses or produces the value. noun: the word
 * before the name in the label of the form.
 */
function renamableName(element, name, node, noun) {
  if (!name) return element;
  return editableValue(element, { label: `${noun} ${name}`, path: node.path, value: name, toChange: ({ value }) => ["rename_value", { path: node.scope, name, new: value }] });
}

/** Open the dialog that deletes a node. */
function deleteNode(node) {
  const inputTexts = node.inputs.flatMap((value, i) => (value.name ? [`${i}: ${value.name}`] : []));
  const output = node.outputs[0]?.name;
  const noInput = "do not reconnect";
  openDialog({
    title: `Delete ${node.op_type} ${node.name}`,
    action: "Delete",
    fields: output ? [{
      name: "input",
      label: `consumers of ${output} use instead`,
      value: inputTexts[0] ?? noInput,
      choices: [...inputTexts, noInput],
      hint: `If ${output} is an output of the graph, the chosen value gets this name.`,
    }] : [],
    run: ({ input = noInput }) => change("delete_node", { path: node.path, input: input === noInput ? null : parseInt(input, 10) }, { address: `#graph=${encodeURIComponent(node.scope)}` }),
  });
}

/** Return a card with the inputs of a node, and links to their producers or tensors. */
function inputsCard(node) {
  const nameCell = (value) => renamableName(valueLink(value), value.name, node, "value");
  const valueLink = (value) => {
    if (value.kind === "node") return link("node", value.path, value.name);
    if (value.kind === "weight") return link("tensor", value.path, value.name);
    return html("span", {}, value.name || "(left out)", value.kind === "input" ? html("span", { class: "note" }, "  graph input") : "");
  };
  return html("section", { class: "card", id: "inputs" }, html("h2", {}, `Inputs (${node.inputs.length})`),
    html("table", {}, ...node.inputs.map((value) => html("tr", {}, html("td", {}, nameCell(value)), html("td", { class: "note" }, value.type)))));
}

/** Return a card with the outputs of a node and links to their consumers. */
function outputsCard(node) {
  const targetCell = (value) => {
    const omittedText = value.count > value.consumers.length ? ` and ${countText(value.count - value.consumers.length)} more` : "";
    const links = value.consumers.map((path) => link("node", path, /\[(\d+)\]$/.exec(path)[1]));
    return [value.is_output ? "graph output" : "", value.is_output && links.length ? "; " : "", links.length ? (value.count === 1 ? "to node " : "to nodes ") : "", ...links.flatMap((consumerLink, i) => (i ? [", ", consumerLink] : [consumerLink])), omittedText];
  };
  return html("section", { class: "card", id: "outputs" }, html("h2", {}, `Outputs (${node.outputs.length})`),
    html("table", {}, ...node.outputs.map((value) =>
      html("tr", {}, html("td", {}, renamableName(html("span", {}, ...nameParts(value.name)), value.name, node, "value")), html("td", { class: "note" }, value.type), html("td", { class: "note" }, ...targetCell(value).filter(Boolean))))));
}

/** Return a card with the attributes of a node. */
function attributesCard(node) {
  return html("section", { class: "card", id: "attributes" }, html("h2", {}, `Attributes (${node.attributes.length})`),
    html("table", {}, ...node.attributes.map((attribute) =>
      html("tr", {}, html("td", {}, attribute.name),
        html("td", { class: "mono" }, editableValue([attribute.text, ...attribute.links.map((target) => link(target.kind, target.path, `${target.text} `))], { label: attribute.name, path: attribute.path, removal: attribute.path })),
        html("td", { class: "note" }, attribute.type)))),
    addButton("Add an attribute", {
      fields: [
        { name: "name", label: "name" },
        { name: "type", label: "type", value: "INT", choices: TEXT_TYPES },
        { name: "value", label: "value", hint: "A number, a text, or a list such as [1, 2]." },
      ],
      toChange: (values) => ["add_attribute", { path: node.path, ...values }],
    }));
}

/** Return a card with the doc string, overload and metadata of a node; "" if it has none of them and the page is read-only. */
function notesCard(node) {
  const rows = [
    ["doc", node.doc_string, `${node.path}.doc_string`, null],
    ["overload", node.overload, `${node.path}.overload`, null],
    ...node.metadata.map((entry, i) => [entry.key, entry.value, `${node.path}.metadata_props[${i}]`, `${node.path}.metadata_props[${i}]`]),
  ].filter(([key, value]) => value || (session.is_editable && key === "doc"));
  if (!rows.length) return "";
  return html("section", { class: "card" }, html("h2", {}, "Notes"),
    html("dl", {}, ...rows.flatMap(([key, value, path, removal]) => [html("dt", {}, key), html("dd", {}, editableValue(value || "–", { label: key, path, removal }))])),
    addMetadataButton(node.path));
}

/** Truncate a text at its start, since names differ at their ends. */
function cutStart(text, maxChars) {
  return text.length <= maxChars ? text : `…${text.slice(text.length - maxChars + 1)}`;
}

/** Return the answer to the query `around` as an SVG element. */
function drawGraph(drawing) {
  const margin = 26;
  const edges = drawing.edges.map((edge) => {
    const from = drawing.boxes[edge.from];
    const to = drawing.boxes[edge.to];
    const points = [[from.x, from.y + from.height / 2], ...edge.points, [to.x, to.y - to.height / 2 - 5]];
    let line = `M${points[0]}`;
    for (let i = 1; i < points.length; i += 1) {
      const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
      const bend = (y1 - y0) / 2;
      line += x0 === x1 ? ` L${x1},${y1}` : ` C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}`;
    }
    const nearClass = edge.from === drawing.focus || edge.to === drawing.focus ? " near" : "";
    return svg("path", { class: `edge${nearClass}`, d: line, "marker-end": "url(#arrow)" }, svg("title", {}, edge.value));
  });
  const groups = drawing.boxes.map((box, i) => drawBox(box, i === drawing.focus));
  const order = [...drawing.boxes.keys()].sort((a, b) => drawing.boxes[a].y - drawing.boxes[b].y || drawing.boxes[a].x - drawing.boxes[b].x);
  const [width, height] = [drawing.width + 2 * margin, drawing.height + 2 * margin];
  // A wide drawing is scaled down, but stays legible.
  const scale = Math.min(Math.max((document.getElementById("details").clientWidth - DETAILS_MARGINS) / width, MIN_SCALE), 1);
  const picture = svg(
    "svg",
    { viewBox: `${-margin} ${-margin} ${width} ${height}`, width: width * scale, height: height * scale, role: "group", "aria-label": "Graph around the node" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 1, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { class: "arrow", d: "M0 0 6 3 0 6z" }))),
    ...edges,
    // In reading order, since the Tab key follows the order of elements.
    ...order.map((i) => groups[i]),
  );
  picture.addEventListener("keydown", (event) => moveFocus(event, drawing, groups));
  return picture;
}

/**
 * Return the SVG element of a box. It links to the node or tensor of the box, unless the box has no path or is the central node.
 * isFocus: whether this is the central node.
 */
function drawBox(box, isFocus) {
  const kinds = { input: "graph input", output: "graph output", weight: "weight", outer: "value of an outer graph" };
  const isNode = box.kind === "node";
  const target = isNode ? "node" : "tensor";
  const canGo = box.path && !isFocus;
  const go = () => {
    if (canGo) location.hash = `${target}=${encodeURIComponent(box.path)}`;
  };
  const name = isNode ? `${box.op_type} ${box.label}` : `${kinds[box.kind]} ${box.label}`;
  const group = svg(
    "g",
    {
      class: `box ${isNode ? "" : "value"} ${isFocus ? "focus" : ""} ${canGo ? "go" : ""}`,
      transform: `translate(${box.x - box.width / 2} ${box.y - box.height / 2})`,
      role: canGo ? "link" : "img",
      tabindex: 0,
      "aria-label": isFocus ? `${name}, this node` : name,
      "data-path": box.path,
      onclick: go,
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          go();
        }
      },
    },
    svg("title", {}, `${name}${box.hidden ? `\n${nounText(box.hidden, "more connection")}` : ""}`),
    svg("rect", { width: box.width, height: box.height, rx: isNode ? 7 : box.height / 2 }),
  );
  const middle = box.width / 2;
  if (isNode) {
    group.append(
      svg("text", { class: `title ${familyOf(box.op_type)}`, x: middle, y: 18, "text-anchor": "middle" }, cutStart(box.op_type, 22)),
      svg("text", { class: "label", x: middle, y: 33, "text-anchor": "middle" }, cutStart(box.label, 25)),
    );
    if (box.hidden) group.append(svg("text", { class: "more", x: box.width + 3, y: 25 }, `+${countText(box.hidden)}`));
  } else {
    group.append(svg("text", { class: "label", x: middle, y: box.height / 2 + 4, "text-anchor": "middle" }, cutStart(box.label, 24)));
  }
  return group;
}

/** Move the focus to the nearest box in the direction of an arrow key. */
function moveFocus(event, drawing, groups) {
  const directions = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  const direction = directions[event.key];
  const focusedBox = drawing.boxes[groups.indexOf(document.activeElement)];
  if (!direction || !focusedBox) return;
  event.preventDefault();
  let nearest = -1;
  let minDistance = Infinity;
  drawing.boxes.forEach((box, i) => {
    const [x, y] = [box.x - focusedBox.x, box.y - focusedBox.y];
    const along = x * direction[0] + y * direction[1];
    const across = Math.abs(x * direction[1] + y * direction[0]);
    if (along > MIN_STEP && along + 2 * across < minDistance) [nearest, minDistance] = [i, along + 2 * across];
  });
  if (nearest >= 0) groups[nearest].focus();
}

/** Scroll a drawing so that the central node is in the middle. */
function scrollToFocus(picture) {
  const focus = picture.querySelector(".focus");
  if (!focus) return;
  const [box, frame] = [focus.getBoundingClientRect(), picture.getBoundingClientRect()];
  picture.scrollLeft += box.left + box.width / 2 - frame.left - frame.width / 2;
  picture.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
}
