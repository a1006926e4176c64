// A message as a tree of its fields with types, values, offsets and bytes. Children are loaded when a row is opened.

import { ask, countText, html, link, replace } from "./api.js";
import { bytesCard } from "./bytes.js";
import { adder, change, editable, iconButton, openEditor, reportError, session } from "./edit_mode.js";

const ROWS = 100; // number of rows of one request
let opened = new Set(); // paths of rows that stay open when the tree is redrawn

export async function showFields(path, details, isCurrent) {
  const answer = await ask("fields", { path, start: 0, count: ROWS });
  if (!isCurrent()) return;
  const body = html("div", { class: "tree", role: "tree", "aria-label": "Fields" });
  const bytes = html("div");
  replace(details,
    html("div", { class: "head" }, html("h1", {}, answer.type), html("span", { class: "sub mono" }, crumbs(path)), answer.is_edited ? html("span", { class: "note" }, "edited: offsets are those of unchanged fields in the file") : ""),
    goTo(path, answer.rows[0]?.path),
    html("section", { class: "card" }, html("div", { class: "tree-head", "aria-hidden": "true" }, html("span", {}, "field"), html("span", {}, "type"), html("span", {}, "value"), html("span", {}, "offset"), html("span", {}, "bytes")), body),
    bytes,
  );
  const tree = { body, bytes, isCurrent };
  fillChildren(tree, body, answer, 1, 0);
  body.querySelector("[role=treeitem]")?.setAttribute("tabindex", 0);
  body.addEventListener("keydown", (event) => move(event, body));
  bytes.append(await bytesCard(path));
}

/** The path from the root, each part a link. */
function crumbs(path) {
  const parts = path.match(/\.?[^.[]+|\[\d+\]/g) ?? [];
  let prefix = "";
  return html("span", {}, link("fields", "", session.name || "file", { "aria-label": "The whole file" }), ...parts.map((part) => {
    prefix += part;
    return html("span", {}, part.startsWith("[") ? "" : " › ", link("fields", prefix, part.replace(/^\./, "")));
  }));
}

function goTo(path, example) {
  const input = html("input", { type: "search", value: path, class: "mono", "aria-label": "Path of a field", placeholder: example ? `a path, such as ${example}` : "a path", spellcheck: "false", autocomplete: "off" });
  const form = html("form", { class: "path" }, input, html("button", { type: "submit", class: "step" }, "Go"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `fields=${encodeURIComponent(input.value.trim())}`;
  });
  return form;
}

/** Add rows of a message, or of a repeated field, to a group, and a button that adds to the field. */
function fillChildren(tree, group, answer, level, start) {
  if (!start) group.replaceChildren();
  const last = group.querySelector(":scope > .adder");
  const put = (...elements) => (last ? last.before(...elements) : group.append(...elements));
  put(...answer.rows.map((row) => drawRow(tree, row, level)));
  const next = start + answer.rows.length;
  if (next < answer.total) {
    const more = html("button", { type: "button", class: "link more" }, `Show ${countText(Math.min(ROWS, answer.total - next))} more of ${countText(answer.total - next)}`);
    more.addEventListener("click", async () => {
      const rest = await ask("fields", { path: answer.path, start: next, count: ROWS });
      more.parentElement.remove();
      fillChildren(tree, group, rest, level, next);
    });
    put(indented(html("div", { class: "tree-row" }, more), level));
  } else if (!answer.total) put(indented(html("div", { class: "tree-row note" }, "empty"), level));
  const add = answer.is_list ? elementAdder(answer) : fieldAdder(answer);
  if (add && !start) group.append(indented(add, level));
}

function indented(element, level) {
  element.style.setProperty("--level", level);
  return element;
}

function drawRow(tree, row, level) {
  const isElement = row.name.endsWith("]");
  const isOpenable = row.kind === "message" || row.kind === "list";
  const group = html("div", { role: "group", hidden: true });
  const twisty = html("span", { class: "twisty", "aria-hidden": "true" }, isOpenable ? "▸" : "");
  const icons = html("span", { class: "icons" });
  const name = row.kind === "unknown" ? html("span", { class: "note" }, `field ${row.number}, unknown`) : html("span", {}, row.name);
  const value = html("span", { class: "tree-value" });
  if (row.kind === "list") value.append(html("span", { class: "note" }, `${countText(row.count)} ${row.count === 1 ? "element" : "elements"}`));
  else if (row.kind === "value") value.append(editable(html("span", { class: "mono" }, row.text), { label: row.name, path: row.path, removal: row.path }));
  else value.append(html("span", { class: "mono" }, row.text));
  if (row.type === "TensorProto" && row.kind === "message") value.append(" ", link("tensor", row.path, "histogram"));
  if (isOpenable && session.is_editable) {
    // A list of messages is not edited as text; types of messages, unlike those of numbers and texts, are capitalized.
    if (row.kind === "message" || !/^[A-Z]/.test(row.type)) icons.append(textButton(value, row));
    icons.append(iconButton("cross", `Remove ${row.name}`, (event) => {
      event.stopPropagation();
      change("remove", { path: row.path }).catch(reportError);
    }, { "data-key": `remove ${row.path}` }));
    value.append(icons);
  }
  const line = indented(html("div", { class: "tree-row" },
    html("span", { class: "tree-name" }, twisty, name, isElement ? "" : html("span", { class: "note" }, ` ${row.number}`)),
    html("span", { class: "note" }, row.type, row.label && !isElement ? ` ${row.label}` : ""), value,
    html("span", { class: "number mono", title: row.offset === null ? "" : "offset in the file" }, row.offset === null ? "–" : bytesLink(tree, row)),
    html("span", { class: "number note" }, row.length === null ? "" : countText(row.length))), level);
  const item = html("div", { role: "treeitem", tabindex: -1, "aria-level": level, "aria-expanded": isOpenable ? "false" : null, "aria-label": `${row.name || `field ${row.number}`} ${row.type} ${row.text}`, "data-path": row.path }, line, group);
  const toggle = async (isOpen) => {
    if (!isOpenable || isOpen === (item.getAttribute("aria-expanded") === "true")) return;
    item.setAttribute("aria-expanded", String(isOpen));
    twisty.textContent = isOpen ? "▾" : "▸";
    group.hidden = !isOpen;
    if (!isOpen) opened.delete(row.path);
    else {
      opened.add(row.path);
      try {
        fillChildren(tree, group, await ask("fields", { path: row.path, start: 0, count: ROWS }), level + 1, 0);
      } catch (error) {
        reportError(error);
      }
    }
  };
  item.toggle = toggle;
  line.addEventListener("click", (event) => {
    if (event.target.closest("button, form")) return;
    item.focus();
    toggle(item.getAttribute("aria-expanded") !== "true");
  });
  if (isOpenable && opened.has(row.path)) toggle(true);
  return item;
}

/** The offset, as a button that shows the bytes. */
function bytesLink(tree, row) {
  if (row.path === null) return countText(row.offset);
  return html("button", { type: "button", class: "link", title: "Show the bytes", onclick: async () => {
    tree.bytes.replaceChildren(await bytesCard(row.path));
    tree.bytes.querySelector("#show-bytes").click();
    tree.bytes.scrollIntoView({ block: "nearest" });
  } }, countText(row.offset));
}

/** A button that opens a form for a message or list as text. */
function textButton(value, row) {
  return iconButton("pencil", `Edit ${row.name} as text`, (event) => {
    event.stopPropagation();
    openEditor(value, { label: row.name, path: row.path, key: `text ${row.path}` });
  }, { "data-key": `text ${row.path}` });
}

const blank = (text) => (text === "" ? null : text);

function elementAdder(answer) {
  return adder("Add an element", {
    title: `Add to ${answer.path}`,
    fields: [{ name: "value", label: `${answer.type}, or empty for a default element`, hint: /^[A-Z]/.test(answer.type) ? "A message as text format in braces: { name: \"x\" }" : "" }],
    toChange: ({ value }) => ["add", { path: answer.path, value: blank(value) }],
  });
}

function fieldAdder(answer) {
  if (!answer.absent.length) return null;
  const names = answer.absent.map((one) => one.name);
  return adder("Add a field", {
    title: `Add to ${answer.path || answer.type}`,
    fields: [
      { name: "name", label: "field", value: names[0], choices: names },
      { name: "value", label: "value, or empty for the default" },
    ],
    toChange: ({ name, value }) => ["add", { path: answer.path ? `${answer.path}.${name}` : name, value: blank(value) }],
  });
}

/** Move in the tree by keys. Source: WAI-ARIA Authoring Practices, Tree View Pattern. */
function move(event, body) {
  const here = document.activeElement;
  if (here?.getAttribute("role") !== "treeitem") return;
  const items = [...body.querySelectorAll("[role=treeitem]")].filter((item) => item.checkVisibility());
  const i = items.indexOf(here);
  const isOpen = here.getAttribute("aria-expanded") === "true";
  const keys = {
    ArrowDown: () => items[i + 1],
    ArrowUp: () => items[i - 1],
    Home: () => items[0],
    End: () => items.at(-1),
    ArrowRight: () => (isOpen ? items[i + 1] : void here.toggle(true)),
    ArrowLeft: () => (isOpen ? void here.toggle(false) : here.parentElement.closest("[role=treeitem]")),
    Enter: () => void here.toggle(!isOpen),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  const next = keys[event.key]();
  if (!next) return;
  here.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** A button that opens the fields of a message. */
export const fieldsButton = (path) => html("button", { type: "button", class: "step", onclick: () => { location.hash = `fields=${encodeURIComponent(path)}`; } }, "Fields");
