// A node: the graph around it, its inputs and outputs, its attributes.

import { ask, countText, familyOf, html, link, nameParts, nounText, replace, svg } from "./api.js";
import { bytesCard } from "./bytes.js";
import { actionButton, adder, change, editable, markButton, metadataAdder, openDialog, problemsCard, session } from "./edit_mode.js";
import { fieldsButton } from "./field_rows.js";

let hops = 2;
const PLAIN = ["FLOAT", "INT", "STRING", "FLOATS", "INTS", "STRINGS"]; // types of attributes that can be typed as text

/** The documentation of an operator, which is fetched when it is opened. */
function documentation(path, opType) {
  const text = html("p", { class: "documentation" }, "reading…");
  const whole = html("details", { class: "card" }, html("summary", {}, `Documentation of ${opType || "the operator"}`), text);
  whole.addEventListener("toggle", async () => {
    const answer = await ask("documentation", { path });
    text.textContent = answer.text || "The onnx package, if it is installed, does not know this operator.";
    if (answer.version) whole.firstChild.append(html("span", { class: "note" }, ` since version ${answer.version}`));
  }, { once: true });
  return whole;
}

export async function showNode(path, details, isCurrent) {
  const [node, drawing] = await Promise.all([ask("node", { path }), ask("around", { path, hops })]);
  if (!isCurrent()) return null;
  const picture = html("div", { class: "drawing" });
  const steps = html("div", { class: "group", role: "group", "aria-label": "Steps from the node" });
  const set = async (count) => {
    hops = count;
    picture.replaceChildren(draw(await ask("around", { path, hops })));
    center(picture);
    paintSteps();
  };
  const paintSteps = () =>
    steps.replaceChildren(
      ...[1, 2, 3, 4].map((count) =>
        html("button", { type: "button", class: "step", "aria-pressed": String(count === hops), "aria-label": nounText(count, "step"), onclick: () => set(count) }, String(count)),
      ),
    );
  paintSteps();
  picture.append(draw(drawing));
  replace(details,
    html(
      "div",
      { class: "head" },
      html("h1", { class: familyOf(node.op_type) }, editable(node.op_type || "(no operator)", { label: "operator", path: `${path}.op_type` })),
      html("span", { class: "sub" }, editable(node.name || (session.is_editable ? "(no name)" : ""), { label: "name", path, value: node.name, toChange: ({ value }) => ["rename_node", { path, name: value }] })),
      node.domain && html("span", { class: "note" }, editable(node.domain, { label: "domain", path: `${path}.domain` })),
      html("span", { class: "actions" }, markButton(node), fieldsButton(path), actionButton("Delete…", () => deleteNode(node))),
    ),
    problemsCard(path),
    documentation(path, node.op_type),
    html("section", { class: "card", "aria-label": "Graph around the node" },
      html("div", { class: "bar" }, html("h2", {}, "Around this node"), html("span", { class: "note" }, "steps"), steps), picture),
    html("div", { class: "pair" }, inputs(node), outputs(node)),
    node.attributes.length || session.is_editable ? attributes(node) : "",
    about(node),
    await bytesCard(path),
  );
  center(picture);
  return node;
}

/** A value's name with a form that renames the value wherever it is used. */
function renamable(shown, name, node, what) {
  if (!name) return shown;
  return editable(shown, { label: `${what} ${name}`, path: node.path, value: name, toChange: ({ value }) => ["rename_value", { path: node.scope, name, new: value }] });
}

function deleteNode(node) {
  const inputs = node.inputs.flatMap((value, i) => (value.name ? [`${i}: ${value.name}`] : []));
  const output = node.outputs[0]?.name;
  const none = "do not reconnect";
  openDialog({
    title: `Delete ${node.op_type} ${node.name}`,
    action: "Delete",
    fields: [{
      name: "input",
      label: output ? `consumers of ${output} use instead` : "its inputs",
      value: inputs[0] ?? none,
      choices: [...inputs, none],
      hint: "An output of the graph keeps its name.",
    }],
    run: ({ input }) => change("delete_node", { path: node.path, input: input === none ? null : parseInt(input, 10) }, { where: `#graph=${encodeURIComponent(node.scope)}` }),
  });
}

function inputs(node) {
  const from = (value) => renamable(origin(value), value.name, node, "value");
  const origin = (value) => {
    if (value.kind === "node") return link("node", value.path, value.name);
    if (value.kind === "weight") return link("tensor", value.path, value.name);
    return html("span", {}, value.name || "(left out)", value.kind === "input" ? html("span", { class: "note" }, "  graph input") : "");
  };
  return html("section", { class: "card", id: "inputs" }, html("h2", {}, `Inputs (${node.inputs.length})`),
    html("table", {}, ...node.inputs.map((value) => html("tr", {}, html("td", {}, from(value)), html("td", { class: "note" }, value.type)))));
}

function outputs(node) {
  const to = (value) => {
    const more = value.count > value.consumers.length ? ` and ${countText(value.count - value.consumers.length)} more` : "";
    const links = value.consumers.map((path) => link("node", path, /\[(\d+)\]$/.exec(path)[1]));
    return [value.is_output ? "graph output" : "", links.length ? " to node " : "", ...links.flatMap((one, i) => (i ? [", ", one] : [one])), more];
  };
  return html("section", { class: "card", id: "outputs" }, html("h2", {}, `Outputs (${node.outputs.length})`),
    html("table", {}, ...node.outputs.map((value) =>
      html("tr", {}, html("td", {}, renamable(html("span", {}, ...nameParts(value.name)), value.name, node, "value")), html("td", { class: "note" }, value.type), html("td", { class: "note" }, ...to(value).filter(Boolean))))));
}

function attributes(node) {
  return html("section", { class: "card", id: "attributes" }, html("h2", {}, `Attributes (${node.attributes.length})`),
    html("table", {}, ...node.attributes.map((one) =>
      html("tr", {}, html("td", {}, one.name),
        html("td", { class: "mono" }, editable([one.text, ...one.links.map((to) => link(to.kind, to.path, `${to.text} `))], { label: one.name, path: one.path, removal: one.path })),
        html("td", { class: "note" }, one.type)))),
    adder("Add an attribute", {
      fields: [
        { name: "name", label: "name" },
        { name: "type", label: "type", value: "INT", choices: PLAIN },
        { name: "value", label: "value", hint: "A number, a text, or a list such as [1, 2]." },
      ],
      toChange: (values) => ["add_attribute", { path: node.path, ...values }],
    }));
}

function about(node) {
  const rows = [
    ["doc", node.doc_string, `${node.path}.doc_string`, null],
    ["overload", node.overload, `${node.path}.overload`, null],
    ...node.metadata.map((entry, i) => [entry.key, entry.value, `${node.path}.metadata_props[${i}]`, `${node.path}.metadata_props[${i}]`]),
  ].filter(([key, value]) => value || (session.is_editable && key === "doc"));
  if (!rows.length) return "";
  return html("section", { class: "card" }, html("h2", {}, "Notes"),
    html("dl", {}, ...rows.flatMap(([key, value, path, removal]) => [html("dt", {}, key), html("dd", {}, editable(value || "–", { label: key, path, removal }))])),
    metadataAdder(node.path));
}

/** Truncate a text at its start, since names differ at their ends. */
function fit(text, letters) {
  return text.length <= letters ? text : `…${text.slice(text.length - letters + 1)}`;
}

function draw(drawing) {
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
    const near = edge.from === drawing.focus || edge.to === drawing.focus ? " near" : "";
    return svg("path", { class: `edge${near}`, d: line, "marker-end": "url(#arrow)" }, svg("title", {}, edge.value));
  });
  const groups = drawing.boxes.map((box, i) => drawBox(box, i === drawing.focus));
  const order = [...drawing.boxes.keys()].sort((a, b) => drawing.boxes[a].y - drawing.boxes[b].y || drawing.boxes[a].x - drawing.boxes[b].x);
  const [width, height] = [drawing.width + 2 * margin, drawing.height + 2 * margin];
  // A wide drawing is scaled down, but stays legible.
  const scale = Math.min(Math.max((document.getElementById("details").clientWidth - 84) / width, 0.7), 1);
  const picture = svg(
    "svg",
    { viewBox: `${-margin} ${-margin} ${width} ${height}`, width: width * scale, height: height * scale, role: "group", "aria-label": "Graph around the node" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 1, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { class: "arrow", d: "M0 0 6 3 0 6z" }))),
    ...edges,
    // In reading order, which is the order of the Tab key too.
    ...order.map((i) => groups[i]),
  );
  picture.addEventListener("keydown", (event) => move(event, drawing, groups));
  return picture;
}

function drawBox(box, isFocus) {
  const kinds = { input: "graph input", output: "graph output", weight: "weight", outer: "value from outside" };
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
    svg("title", {}, `${name}${box.hidden ? `\n${countText(box.hidden)} more connections` : ""}`),
    svg("rect", { width: box.width, height: box.height, rx: isNode ? 7 : box.height / 2 }),
  );
  const middle = box.width / 2;
  if (isNode) {
    group.append(
      svg("text", { class: `title ${familyOf(box.op_type)}`, x: middle, y: 18, "text-anchor": "middle" }, fit(box.op_type, 22)),
      svg("text", { class: "label", x: middle, y: 33, "text-anchor": "middle" }, fit(box.label, 25)),
    );
    if (box.hidden) group.append(svg("text", { class: "more", x: box.width + 3, y: 25 }, `+${countText(box.hidden)}`));
  } else {
    group.append(svg("text", { class: "label", x: middle, y: box.height / 2 + 4, "text-anchor": "middle" }, fit(box.label, 24)));
  }
  return group;
}

/** Move the focus to the nearest box in the direction of an arrow key. */
function move(event, drawing, groups) {
  const directions = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  const direction = directions[event.key];
  const here = drawing.boxes[groups.indexOf(document.activeElement)];
  if (!direction || !here) return;
  event.preventDefault();
  let best = -1;
  let least = Infinity;
  drawing.boxes.forEach((box, i) => {
    const [x, y] = [box.x - here.x, box.y - here.y];
    const along = x * direction[0] + y * direction[1];
    const across = Math.abs(x * direction[1] + y * direction[0]);
    if (along > 8 && along + 2 * across < least) [best, least] = [i, along + 2 * across];
  });
  if (best >= 0) groups[best].focus();
}

function center(picture) {
  const focus = picture.querySelector(".focus");
  if (!focus) return;
  const [box, frame] = [focus.getBoundingClientRect(), picture.getBoundingClientRect()];
  picture.scrollLeft += box.left + box.width / 2 - frame.left - frame.width / 2;
  picture.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
}
