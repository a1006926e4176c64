// Editing: the state of the edits, forms, undo and redo, new problems, and marks of nodes.

import { ask, countText, html, nounText, newestRevision, send, svg } from "./api.js";

/**
 * The state of the edits on the server: the fields of `Edits.state` in edits.py; on a read-only page, is_editable is false. problems:
 * the answer to the query "problems", about the problems of the edited model that the file did not have; null until it is received.
 * page.js adds name (of the file), is_model and is_tensor.
 */
export const session = { is_editable: false, changes: [], first: 0, total: 0, done: 0, is_saved: true, problems: null };

// SVG paths of the icons in a square of 16 by 16.
const ICONS = {
  pencil: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  cross: "M4 4l8 8 M12 4l-8 8",
  plus: "M8 3v10 M3 8h10",
};
let refresh = async () => {}; // reloads the page's contents; set by `beginEdits`
let displayedRevision = -1; // the displayed revision, to which changes apply; another tab may have made a newer revision
let focusKey = ""; // the attribute data-key of the control to focus after a change

/** Return a small button with an icon. */
export function iconButton(icon, label, onClick, attributes = {}) {
  return html("button", { type: "button", class: "icon", "aria-label": label, title: label, "data-key": label, onclick: onClick, ...attributes },
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[icon] })));
}

/** Return a button for an action on the displayed element; null on a read-only page. */
export function actionButton(text, onClick, attributes = {}) {
  return session.is_editable ? html("button", { type: "button", class: "small-button", "data-key": text, onclick: onClick, ...attributes }, text) : null;
}

/**
 * Make a change, and show the new state. kind, values: the kind of change in change_kinds.py, and its arguments. revision: the
 * revision to change. address: the fragment of the address to open afterwards, or null. key: the attribute data-key of the
 * control to focus afterwards.
 */
export async function change(kind, values, { revision = displayedRevision, address = null, key = "" } = {}) {
  await showState(await send("change", { revision, kind, arguments: values }), { address, key });
}

/** Return the displayed revision. */
export const displayedRevisionNow = () => displayedRevision;

/** Reload the page's contents. */
async function update() {
  displayedRevision = newestRevision();
  await refresh();
}

/** Show changes by other tabs, unless a form is open: the server then rejects the form when it is sent. */
async function showForeignChanges() {
  if (displayedRevision !== newestRevision() && !document.querySelector("form.editing")) await update();
}

/** Show the page after a change, and check the model. state: the server's answer; address, key: as for `change`. */
async function showState(state, { address = null, key = "" } = {}) {
  Object.assign(session, state);
  session.problems = null;
  focusKey = key;
  if (address !== null && location.hash !== address) history.pushState(null, "", address || location.pathname);
  await update();
  document.querySelector(`[data-key="${CSS.escape(focusKey)}"]`)?.focus();
  check();
}

/** Undo or redo a change; no-op if there is none. action: "undo" or "redo". */
export async function undoOrRedo(action) {
  if (action === "undo" ? !session.done : session.done === session.total) return;
  await showState(await send(action, { revision: displayedRevision }), { key: action });
}

/** Check the model, and dispatch the event "problems". No event if the model was changed in the meantime. */
async function check() {
  const revision = newestRevision();
  const answer = await ask("problems");
  if (answer.revision !== revision) return;
  session.problems = answer;
  document.dispatchEvent(new CustomEvent("problems"));
}

// Forms

let controlCount = 0; // for unique ids

/**
 * Return a labelled control: a select if there are choices, a text area if form is "lines", "message", or "list" with a long text,
 * a checkbox if it is "check", else a text field. hint: a text below the control.
 */
function makeControl({ name, label, value = "", choices = null, form = "text", placeholder = null, hint = "" }) {
  controlCount += 1;
  const id = `field-${controlCount}`;
  const commonAttributes = { id, name, "aria-describedby": hint ? `${id}-hint` : null };
  // About 70 characters fit in a line of a text area, which has 2 to 14 lines.
  const input = choices?.length
    ? html("select", commonAttributes, ...(choices.includes(value) ? choices : [value, ...choices]).map((option) => html("option", { selected: option === value }, option)))
    : form === "lines" || form === "message" || (form === "list" && value.length > 60)
      ? html("textarea", { ...commonAttributes, rows: Math.min(Math.max(value.split("\n").length, Math.ceil(value.length / 70), 2), 14), spellcheck: "false" })
      : form === "check"
        ? html("input", { ...commonAttributes, type: "checkbox" })
        : html("input", { ...commonAttributes, type: "text", autocomplete: "off", spellcheck: "false", placeholder });
  if (form !== "check") input.value = value;
  const labelElement = html("label", { for: id }, label);
  return html("div", { class: form === "check" ? "control check" : "control" }, ...(form === "check" ? [input, labelElement] : [labelElement, input]), hint && html("p", { class: "note", id: `${id}-hint` }, hint));
}

// The values of a form by the names of its controls.
const readForm = (form) => Object.fromEntries([...form.elements].filter((element) => element.name).map((element) => [element.name, element.type === "checkbox" ? element.checked : element.value]));

/**
 * Return a form. fields: arguments of `makeControl`. action: the text of the button that sends the form. run(values): called when
 * the form is sent; the form shows an error that `run` throws. close(): called on Cancel and Escape. note: a text above the fields.
 * adapt(form): shows and hides controls; called at the start, after each input and after an error.
 */
export function makeForm({ title, fields, action, run, close, note = "", adapt = null }) {
  const errorLine = html("p", { role: "alert", class: "problem", hidden: true });
  const submitButton = html("button", { type: "submit", class: "small-button main" }, action);
  const form = html("form", { class: "editing", "aria-label": title },
    note && html("p", { class: "note" }, note), ...fields.map(makeControl), errorLine,
    html("div", { class: "group" }, submitButton, html("button", { type: "button", class: "small-button", onclick: close }, "Cancel")));
  if (adapt) {
    form.addEventListener("input", () => adapt(form));
    adapt(form);
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    errorLine.hidden = true;
    submitButton.disabled = true;
    try {
      await run(readForm(form));
    } catch (error) {
      errorLine.textContent = error.message;
      errorLine.hidden = false;
      adapt?.(form);
      form.querySelector("input, select, textarea")?.focus();
    } finally {
      submitButton.disabled = false;
    }
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      close();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}

/** Focus the first control of a form. */
function focusFirstControl(form) {
  const firstControl = form.querySelector("input, select, textarea");
  firstControl?.focus();
  firstControl?.select?.();
}

/** Open a form in a dialog. options: the arguments of `makeForm` except `close`. */
export function openDialog(options) {
  const box = html("dialog", { "aria-label": options.title }, html("h2", {}, options.title));
  const close = () => box.close();
  const run = async (values) => {
    await options.run(values);
    close();
  };
  const form = makeForm({ ...options, run, close });
  box.append(form);
  box.addEventListener("close", () => {
    box.remove();
    showForeignChanges().catch(reportError);
  });
  document.body.append(box);
  box.showModal();
  focusFirstControl(form);
}

/** Replace an element by a form until the form is closed. options: the arguments of `makeForm` except `close`. */
export function openInline(element, options) {
  const opener = document.activeElement;
  const close = () => {
    form.replaceWith(element);
    opener?.focus();
    showForeignChanges().catch(reportError);
  };
  const form = makeForm({ ...options, close });
  element.replaceWith(form);
  focusFirstControl(form);
}

/**
 * Return a displayed value with a button that opens a form for the value; without buttons on a read-only page.
 * content: the displayed text or element, or a list of these. label: the name of the value; path: the path of the value.
 * toChange(values): converts the form's values to the kind and the arguments of a change; null for the change that sets the value.
 * value: the text to edit, null to load the text from the server. removal: the path of the element that a second button removes,
 * or null.
 */
export function editableValue(content, { label, path, toChange = null, value = null, removal = null }) {
  const children = [content].flat();
  if (!session.is_editable) return html("span", {}, ...children);
  const key = `${label} ${path}`;
  const icons = html("span", { class: "icons" });
  const box = html("span", { class: "editable" }, ...children, icons);
  icons.append(iconButton("pencil", `Edit ${label}`, () => openEditor(box, { label, path, toChange, value, key }), { "data-key": key }));
  if (removal) icons.append(iconButton("cross", `Remove ${label}`, () => change("remove", { path: removal }).catch(reportError)));
  return box;
}

/**
 * Replace an element by a form for the value at a path. Other arguments as for `editableValue`; key: the attribute data-key of
 * the control to focus after the change.
 */
export async function openEditor(box, { label, path, toChange = null, value = null, key }) {
  const revision = displayedRevision;
  const answer = value === null ? await ask("value", { path }).catch((error) => ({ form: "none", reason: error.message })) : { form: "text", text: value, choices: [] };
  if (answer.form === "none") return reportError(new Error(answer.reason));
  const fields = answer.form === "shape"
    ? [
        { name: "elem_type", label: "type", value: answer.elem_type, choices: answer.choices },
        { name: "shape", label: "shape", value: answer.text, hint: "Numbers, names, or ? for an unknown dim: [1, batch, ?]. Empty for an unknown shape." },
      ]
    : [{ name: "value", label: answer.form === "hex" ? `${label}, in hexadecimal digits` : label, value: answer.text, choices: answer.choices, form: answer.form }];
  const kinds = { shape: (values) => ["set_shape", { path, ...values }], hex: (values) => ["set_bytes", { path, digits: values.value }] };
  const toRequest = toChange ?? kinds[answer.form] ?? ((values) => ["set", { path, value: values.value }]);
  return openInline(box, { title: `Edit ${label}`, fields, action: "Set", run: (values) => change(...toRequest(values), { revision, key }) });
}

/** Return a button that a click replaces by a form; null on a read-only page. Arguments as for `makeForm` and `editableValue`. */
export function addButton(text, { title = text, fields, action = "Add", toChange }) {
  if (!session.is_editable) return null;
  const button = html("button", { type: "button", class: "small-button add", "data-key": title });
  button.append(svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS.plus })), text);
  button.addEventListener("click", () => {
    const revision = displayedRevision;
    openInline(button, { title, fields, action, run: (values) => change(...toChange(values), { revision, key: title }) });
  });
  return html("div", { class: "adder" }, button);
}

/** Return a button that adds an entry of metadata to the message at a path. */
export const addMetadataButton = (path) => addButton("Add metadata", {
  fields: [{ name: "key", label: "key" }, { name: "value", label: "value" }],
  toChange: (values) => ["add_metadata", { path, ...values }],
});

/** Show an error on the page. */
export const reportError = (error) => document.dispatchEvent(new CustomEvent("trouble", { detail: error }));

/** Return a card with the new problems of the element at a path, filled when the check is done; null on a read-only page. */
export function problemsCard(path) {
  const card = html("section", { class: "card problems", "data-problems": path, hidden: true, "aria-label": "New problems" });
  paintProblems(card);
  return session.is_editable ? card : null;
}

/** Show the new problems at the path of a card and below this path. */
function paintProblems(card) {
  const path = card.dataset.problems;
  const isAtPath = (problem) => problem.path === path || (problem.path.startsWith(path) && ".[".includes(problem.path[path.length]));
  const rows = (session.problems?.rows ?? []).filter(isAtPath);
  card.hidden = !rows.length;
  card.replaceChildren(html("h2", {}, "New problems"), ...rows.map(problemLine));
}

/** Return a line with the severity, message and rule of a problem. */
export function problemLine(problem) {
  return html("p", { class: "problem-line" }, html("span", { class: `severity ${problem.severity}` }, problem.severity), " ", problem.message, html("span", { class: "note mono" }, ` ${problem.rule}`));
}

document.addEventListener("problems", () => document.querySelectorAll("[data-problems]").forEach(paintProblems));

/** Return the mark of a row in a list if its element has a new problem, else null. */
export function problemMark(path) {
  const hasProblem = session.problems?.rows.some((problem) => problem.path === path || problem.path.startsWith(`${path}.`));
  return hasProblem ? html("span", { class: "problem-mark", title: "a new problem" }, "!") : null;
}

/** The nodes of the main graph to extract: the name of an output of each node, and the label of the node. */
export const marks = new Map();

/** Return a button that marks a node for extraction; null for a node that cannot be extracted, and on a read-only page. */
export function markButton(node) {
  const value = node.outputs.find((output) => output.name)?.name;
  if (!session.is_editable || node.scope !== "graph" || !value) return null;
  const button = html("button", { type: "button", class: "small-button", id: "mark", title: "Mark for extraction (m)" });
  const paint = () => {
    button.textContent = marks.has(value) ? "Marked" : "Mark";
    button.setAttribute("aria-pressed", String(marks.has(value)));
  };
  button.addEventListener("click", () => {
    if (!marks.delete(value)) marks.set(value, node.name || node.op_type);
    paint();
    document.dispatchEvent(new CustomEvent("marks"));
  });
  paint();
  return button;
}

/** Load the state of the edits, and handle the keys of the edit mode. show(): reloads the page's contents. */
export async function beginEdits(show) {
  refresh = show;
  Object.assign(session, await ask("edits"));
  displayedRevision = newestRevision();
  if (!session.is_editable) return;
  document.body.classList.add("edits");
  addEventListener("beforeunload", (event) => {
    if (!session.is_saved) event.preventDefault();
  });
  document.addEventListener("foreign-change", () => handleForeignChange().catch(reportError));
  addEventListener("hashchange", () => displayedRevision !== newestRevision() && update().catch(reportError));
  document.addEventListener("visibilitychange", () => document.hidden || ask("edits").catch(reportError));
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    const key = event.key.toLowerCase();
    if (isTyping || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey) {
      if (key === "z") undoOrRedo(event.shiftKey ? "redo" : "undo").catch(reportError);
      else if (key === "y") undoOrRedo("redo").catch(reportError);
      else if (key === "s") document.getElementById("save")?.click();
      else return;
    } else if (event.altKey) return;
    else if (key === "d") location.hash = location.hash === "#difference" ? "" : "difference";
    else if (key === "m") document.getElementById("mark")?.click();
    else return;
    event.preventDefault();
  });
  if (session.done) check().catch(reportError);
}

/** Report that another tab changed the model, and show the new state. */
async function handleForeignChange() {
  Object.assign(session, await ask("edits"));
  session.problems = null;
  const lastChange = session.changes[session.done - session.first - 1]?.text;
  const summary = lastChange ? `${nounText(session.done, "change")} now, the last: ${lastChange}` : "no changes now";
  reportError(new Error(`Another tab changed the model: ${summary}.`));
  await showForeignChanges();
  check().catch(reportError);
}

/** Format the number of changes in effect. */
export const changesText = () => (session.done ? nounText(session.done, "change") : "No changes");
/** Format the number of new problems; "" if there is none, or before the check is done. */
export const newProblemsText = () => (session.problems?.total ? `${countText(session.problems.total)} new ${session.problems.total === 1 ? "problem" : "problems"}` : "");
