// A message as a tree of its fields with types, values, offsets and bytes. Children are loaded when a row is opened.

import { ask, countText, html, link, setChildren } from "./api.js";
import { bytesCard } from "./bytes.js";
import { addButton, change, editableValue, iconButton, openEditor, reportError, session } from "./edit_mode.js";

const PAGE_ROWS = 100; // number of rows of one request
let openPaths = new Set(); // paths of the open rows, which stay open when the tree is redrawn

/**
 * Show the fields of a message or list in the element `details`.
 * path: the path of the message or list, "" for the whole file. isCurrent(): returns false if the user has opened another element
 * in the meantime; the server's answer is then ignored.
 */
export async function showFields(path, details, isCurrent) {
  const answer = await ask("fields", { path, start: 0, count: PAGE_ROWS });
  if (!isCurrent()) return;
  const body = html("div", { class: "tree", role: "tree", "aria-label": "Fields" });
  const bytes = html("div");
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, answer.type), html("span", { class: "sub mono" }, pathLinks(path)), answer.is_edited ? html("span", { class: "note" }, "edited; only unchanged messages in it have an offset in the file") : ""),
    makePathForm(path, answer.rows[0]?.path),
    html("section", { class: "card" }, html("div", { class: "tree-head", "aria-hidden": "true" }, html("span", {}, "field"), html("span", {}, "type"), html("span", {}, "value"), html("span", {}, "offset"), html("span", {}, "bytes")), body),
    bytes,
  );
  const tree = { body, bytes, isCurrent };
  fillChildren(tree, body, answer, 1, 0);
  body.querySelector("[role=treeitem]")?.setAttribute("tabindex", 0);
  body.addEventListener("keydown", (event) => moveFocus(event, body));
  bytes.append(bytesCard(path));
}

/** Return the path from the root with a link for each part. */
function pathLinks(path) {
  const parts = path.match(/\.?[^.[]+|\[\d+\]/g) ?? [];
  let prefix = "";
  return html("span", {}, link("fields", "", session.name || "file", { "aria-label": "The whole file" }), ...parts.map((part) => {
    prefix += part;
    return html("span", {}, part.startsWith("[") ? "" : " › ", link("fields", prefix, part.replace(/^\./, "")));
  }));
}

/** Return a form for the path of another field. */
function makePathForm(path, example) {
  const input = html("input", { type: "search", value: path, class: "mono", "aria-label": "Path of a field", placeholder: example ? `a path, such as ${example}` : "a path", spellcheck: "false", autocomplete: "off" });
  const form = html("form", { class: "path" }, input, html("button", { type: "submit", class: "small-button" }, "Go"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `fields=${encodeURIComponent(input.value.trim())}`;
  });
  return form;
}

/**
 * Add a page of rows to a group, and to the first page a button that adds an element or field. tree: the elements of the tree, from
 * `showFields`. group: the element for the rows. answer: the answer to the query `fields`. level: the level of the rows in the tree.
 * start: the index of the first row of the page.
 */
function fillChildren(tree, group, answer, level, start) {
  if (!start) group.replaceChildren();
  const existingButton = group.querySelector(":scope > .adder");
  const insert = (...elements) => (existingButton ? existingButton.before(...elements) : group.append(...elements));
  insert(...answer.rows.map((row) => drawRow(tree, row, level)));
  const nextStart = start + answer.rows.length;
  if (nextStart < answer.total) {
    const moreButton = html("button", { type: "button", class: "link more" }, `Show ${countText(Math.min(PAGE_ROWS, answer.total - nextStart))} more of ${countText(answer.total - nextStart)}`);
    moreButton.addEventListener("click", async () => {
      const nextAnswer = await ask("fields", { path: answer.path, start: nextStart, count: PAGE_ROWS });
      moreButton.parentElement.remove();
      fillChildren(tree, group, nextAnswer, level, nextStart);
    });
    insert(indent(html("div", { class: "tree-row" }, moreButton), level));
  } else if (!answer.total) insert(indent(html("div", { class: "tree-row note" }, "empty"), level));
  const button = answer.is_list ? addElementButton(answer) : addFieldButton(answer);
  if (button && !start) group.append(indent(button, level));
}

/** Indent an element to a level of the tree, and return it. */
function indent(element, level) {
  element.style.setProperty("--level", level);
  return element;
}

/** Return the item of the tree for a row. The method `toggle(isOpen)` of the item opens or closes it. */
function drawRow(tree, row, level) {
  const isElement = row.name.endsWith("]");
  const isOpenable = row.kind === "message" || row.kind === "list";
  const group = html("div", { role: "group", hidden: true });
  const expander = html("span", { class: "expander", "aria-hidden": "true" }, isOpenable ? "▸" : "");
  const icons = html("span", { class: "icons" });
  const name = row.kind === "unknown" ? html("span", { class: "note" }, `field ${row.number}, unknown`) : html("span", {}, row.name);
  const value = html("span", { class: "tree-value" });
  if (row.kind === "list") value.append(html("span", { class: "note" }, `${countText(row.count)} ${row.count === 1 ? "element" : "elements"}`));
  else if (row.kind === "value") value.append(editableValue(html("span", { class: "mono" }, row.text), { label: row.name, path: row.path, removal: row.path }));
  else value.append(html("span", { class: "mono" }, row.text));
  if (row.type === "TensorProto" && row.kind === "message") value.append(" ", link("tensor", row.path, "histogram"));
  if (isOpenable && session.is_editable) {
    // A list of messages or enum values is not edited as text; their types, unlike those of numbers and texts, are capitalized.
    if (row.kind === "message" || !/^[A-Z]/.test(row.type)) icons.append(textButton(value, row));
    icons.append(iconButton("cross", `Remove ${row.name}`, (event) => {
      event.stopPropagation();
      change("remove", { path: row.path }).catch(reportError);
    }, { "data-key": `remove ${row.path}` }));
    value.append(icons);
  }
  const line = indent(html("div", { class: "tree-row" },
    html("span", { class: "tree-name" }, expander, name, isElement ? "" : html("span", { class: "note" }, ` ${row.number}`)),
    html("span", { class: "note" }, row.type, row.label && !isElement ? ` ${row.label}` : ""), value,
    html("span", { class: "number mono", title: row.offset === null ? "" : "offset in the file" }, row.offset === null ? "–" : bytesLink(tree, row)),
    html("span", { class: "number note" }, row.length === null ? "" : countText(row.length))), level);
  const item = html("div", { role: "treeitem", tabindex: -1, "aria-level": level, "aria-expanded": isOpenable ? "false" : null, "aria-label": `${row.name || `field ${row.number}`} ${row.type} ${row.text}`, "data-path": row.path }, line, group);
  const toggle = async (isOpen) => {
    if (!isOpenable || isOpen === (item.getAttribute("aria-expanded") === "true")) return;
    item.setAttribute("aria-expanded", String(isOpen));
    expander.textContent = isOpen ? "▾" : "▸";
    group.hidden = !isOpen;
    if (!isOpen) openPaths.delete(row.path);
    else {
      openPaths.add(row.path);
      try {
        fillChildren(tree, group, await ask("fields", { path: row.path, start: 0, count: PAGE_ROWS }), level + 1, 0);
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
  if (isOpenable && openPaths.has(row.path)) toggle(true);
  return item;
}

/** Return the offset of a row as a button that shows the bytes; for an unknown field, as text. */
function bytesLink(tree, row) {
  if (row.path === null) return countText(row.offset);
  return html("button", { type: "button", class: "link", title: "Show the bytes", onclick: async () => {
    tree.bytes.replaceChildren(bytesCard(row.path));
    tree.bytes.querySelector("#show-bytes").click();
    tree.bytes.scrollIntoView({ block: "nearest" });
  } }, countText(row.offset));
}

/** Return a button that replaces the element `value` by a form for a message or list as text. */
function textButton(value, row) {
  return iconButton("pencil", `Edit ${row.name} as text`, (event) => {
    event.stopPropagation();
    openEditor(value, { label: row.name, path: row.path, key: `text ${row.path}` });
  }, { "data-key": `text ${row.path}` });
}

// An empty text in a form means the default value, which is null in a request.
const emptyToNull = (text) => (text === "" ? null : text);

/** Return a button that adds an element to the list of an answer. */
function addElementButton(answer) {
  return addButton("Add an element", {
    title: `Add to ${answer.path}`,
    fields: [{ name: "value", label: `${answer.type}, or empty for a default element`, hint: /^[A-Z]/.test(answer.type) ? "A message in text format, in braces: { name: \"x\" }" : "" }],
    toChange: ({ value }) => ["add", { path: answer.path, value: emptyToNull(value) }],
  });
}

/** Return a button that adds an absent field to the message of an answer; null if no field is absent. */
function addFieldButton(answer) {
  if (!answer.absent.length) return null;
  const names = answer.absent.map((field) => field.name);
  return addButton("Add a field", {
    title: `Add to ${answer.path || answer.type}`,
    fields: [
      { name: "name", label: "field", value: names[0], choices: names },
      { name: "value", label: "value, or empty for the default" },
    ],
    toChange: ({ name, value }) => ["add", { path: answer.path ? `${answer.path}.${name}` : name, value: emptyToNull(value) }],
  });
}

/** Move the focus in the tree by keys. Source: WAI-ARIA Authoring Practices, Tree View Pattern. */
function moveFocus(event, body) {
  const focusedItem = document.activeElement;
  if (focusedItem?.getAttribute("role") !== "treeitem") return;
  const items = [...body.querySelectorAll("[role=treeitem]")].filter((item) => item.checkVisibility());
  const i = items.indexOf(focusedItem);
  const isOpen = focusedItem.getAttribute("aria-expanded") === "true";
  const keys = {
    ArrowDown: () => items[i + 1],
    ArrowUp: () => items[i - 1],
    Home: () => items[0],
    End: () => items.at(-1),
    ArrowRight: () => (isOpen ? items[i + 1] : void focusedItem.toggle(true)),
    ArrowLeft: () => (isOpen ? void focusedItem.toggle(false) : focusedItem.parentElement.closest("[role=treeitem]")),
    Enter: () => void focusedItem.toggle(!isOpen),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  const nextItem = keys[event.key]();
  if (!nextItem) return;
  focusedItem.tabIndex = -1;
  nextItem.tabIndex = 0;
  nextItem.focus();
}

/** Return a button that opens the fields of a message. */
export const fieldsButton = (path) => html("button", { type: "button", class: "small-button", onclick: () => { location.hash = `fields=${encodeURIComponent(path)}`; } }, "Fields");
