// Editing: the state of the edits, forms, undo and redo, marks.

import { ask, countText, html, nounText, revisionNow, send, svg } from "./api.js";

/** The state of the edits on the server; `is_editable` is false for a read-only page. */
export const session = { is_editable: false, changes: [], first: 0, total: 0, done: 0, is_saved: true, problems: null };

const ICONS = {
  pencil: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  cross: "M4 4l8 8 M12 4l-8 8",
  plus: "M8 3v10 M3 8h10",
};
let refresh = async () => {};
let shown = -1; // the displayed revision, to which changes apply; another tab may have made a newer revision
let focusKey = ""; // the key of the control to focus after a change

/** A small button with an icon. */
export function iconButton(icon, label, go, attributes = {}) {
  return html("button", { type: "button", class: "icon", "aria-label": label, title: label, "data-key": label, onclick: go, ...attributes },
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[icon] })));
}

/** A button for an action on the shown element; null on a read-only page. */
export function actionButton(text, go, attributes = {}) {
  return session.is_editable ? html("button", { type: "button", class: "step", "data-key": text, onclick: go, ...attributes }, text) : null;
}

/** Make a change. where: the address to open afterwards, or null. */
export async function change(kind, values, { revision = shown, where = null, key = "" } = {}) {
  await showState(await send("change", { revision, kind, arguments: values }), { where, key });
}

/** The displayed revision. */
export const revisionShown = () => shown;

/** Reload the page's contents. */
async function update() {
  shown = revisionNow();
  await refresh();
}

/** Show changes of another tab, unless a form is open; the server then refuses the form when it is sent. */
async function catchUp() {
  if (shown !== revisionNow() && !document.querySelector("form.editing")) await update();
}

async function showState(state, { where = null, key = "" } = {}) {
  Object.assign(session, state);
  session.problems = null;
  focusKey = key;
  if (where !== null && location.hash !== where) history.pushState(null, "", where || location.pathname);
  await update();
  document.querySelector(`[data-key="${CSS.escape(focusKey)}"]`)?.focus();
  check();
}

/** Undo or redo. */
export async function step(action) {
  if (action === "undo" ? !session.done : session.done === session.total) return;
  await showState(await send(action, { revision: shown }), { key: action });
}

/** Check the model, and notify everything that shows problems. */
async function check() {
  const revision = revisionNow();
  const answer = await ask("problems");
  if (answer.revision !== revision) return;
  session.problems = answer;
  document.dispatchEvent(new CustomEvent("problems"));
}

// Forms

let count = 0;

/** A labelled control. choices: makes it a select. form: "lines", "message" and "list" make it a text area. */
function control({ name, label, value = "", choices = null, form = "text", placeholder = null, hint = "" }) {
  count += 1;
  const id = `field-${count}`;
  const shared = { id, name, "aria-describedby": hint ? `${id}-hint` : null };
  const input = choices?.length
    ? html("select", shared, ...(choices.includes(value) ? choices : [value, ...choices]).map((one) => html("option", { selected: one === value }, one)))
    : form === "lines" || form === "message" || (form === "list" && value.length > 60)
      ? html("textarea", { ...shared, rows: Math.min(Math.max(value.split("\n").length, Math.ceil(value.length / 70), 2), 14), spellcheck: "false" })
      : form === "check"
        ? html("input", { ...shared, type: "checkbox" })
        : html("input", { ...shared, type: "text", autocomplete: "off", spellcheck: "false", placeholder });
  if (form !== "check") input.value = value;
  const text = html("label", { for: id }, label);
  return html("div", { class: form === "check" ? "control check" : "control" }, ...(form === "check" ? [input, text] : [text, input]), hint && html("p", { class: "note", id: `${id}-hint` }, hint));
}

const valuesOf = (form) => Object.fromEntries([...form.elements].filter((one) => one.name).map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]));

/**
 * A form. fields: arguments of `control`; run(values): the action, whose error the form shows; close(): called on
 * cancel.
 * adapt(form): shows and hides controls after each input.
 */
export function makeForm({ title, fields, action, run, close, note = "", adapt = null }) {
  const problem = html("p", { role: "alert", class: "problem", hidden: true });
  const save = html("button", { type: "submit", class: "step main" }, action);
  const form = html("form", { class: "editing", "aria-label": title },
    note && html("p", { class: "note" }, note), ...fields.map(control), problem,
    html("div", { class: "group" }, save, html("button", { type: "button", class: "step", onclick: close }, "Cancel")));
  if (adapt) {
    form.addEventListener("input", () => adapt(form));
    adapt(form);
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    save.disabled = true;
    try {
      await run(valuesOf(form));
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      adapt?.(form);
      form.querySelector("input, select, textarea")?.focus();
    } finally {
      save.disabled = false;
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

function focusIn(form) {
  const first = form.querySelector("input, select, textarea");
  first?.focus();
  first?.select?.();
}

/** Open a form in a dialog. */
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
    catchUp().catch(reportError);
  });
  document.body.append(box);
  box.showModal();
  focusIn(form);
}

/** Replace an element by a form until the form is closed. */
export function openInline(element, options) {
  const opener = document.activeElement;
  const close = () => {
    form.replaceWith(element);
    opener?.focus();
    catchUp().catch(reportError);
  };
  const form = makeForm({ ...options, close });
  element.replaceWith(form);
  focusIn(form);
}

/**
 * A displayed value with a button that opens a form for it.
 * label: the name of the value; path: its path; toChange(values): [kind, arguments], by default of "set".
 */
export function editable(shown, { label, path, toChange = null, value = null, removal = null }) {
  const children = [shown].flat();
  if (!session.is_editable) return html("span", {}, ...children);
  const key = `${label} ${path}`;
  const icons = html("span", { class: "icons" });
  const box = html("span", { class: "editable" }, ...children, icons);
  icons.append(iconButton("pencil", `Edit ${label}`, () => openEditor(box, { label, path, toChange, value, key }), { "data-key": key }));
  if (removal) icons.append(iconButton("cross", `Remove ${label}`, () => change("remove", { path: removal }).catch(reportError)));
  return box;
}

/** Replace an element by a form for the value at a path. value: null to load it from the server. */
export async function openEditor(box, { label, path, toChange = null, value = null, key }) {
  const revision = shown;
  const known = value === null ? await ask("value", { path }).catch((error) => ({ form: "none", reason: error.message })) : { form: "text", text: value, choices: [] };
  if (known.form === "none") return reportError(new Error(known.reason));
  const fields = known.form === "shape"
    ? [
        { name: "elem_type", label: "type", value: known.elem_type, choices: known.choices },
        { name: "shape", label: "shape", value: known.text, hint: "Numbers, names, or ? for an unknown dim: [1, batch, ?]. Empty for an unknown shape." },
      ]
    : [{ name: "value", label: known.form === "hex" ? `${label}, in hexadecimal digits` : label, value: known.text, choices: known.choices, form: known.form }];
  const kinds = { shape: (values) => ["set_shape", { path, ...values }], hex: (values) => ["set_bytes", { path, digits: values.value }] };
  const make = toChange ?? kinds[known.form] ?? ((values) => ["set", { path, value: values.value }]);
  return openInline(box, { title: `Edit ${label}`, fields, action: "Set", run: (values) => change(...make(values), { revision, key }) });
}

/** A button that opens a form in its place. */
export function adder(text, { title = text, fields, action = "Add", toChange }) {
  if (!session.is_editable) return null;
  const button = html("button", { type: "button", class: "step add", "data-key": title });
  button.append(svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS.plus })), text);
  button.addEventListener("click", () => {
    const revision = shown;
    openInline(button, { title, fields, action, run: (values) => change(...toChange(values), { revision, key: title }) });
  });
  return html("div", { class: "adder" }, button);
}

/** A button that adds an entry of metadata to the message at a path. */
export const metadataAdder = (path) => adder("Add metadata", {
  fields: [{ name: "key", label: "key" }, { name: "value", label: "value" }],
  toChange: (values) => ["add_metadata", { path, ...values }],
});

export const reportError = (error) => document.dispatchEvent(new CustomEvent("trouble", { detail: error }));

/** A card with the new problems at a path, filled when the check is done. */
export function problemsCard(path) {
  const card = html("section", { class: "card problems", "data-problems": path, hidden: true, "aria-label": "New problems" });
  paintProblems(card);
  return session.is_editable ? card : null;
}

function paintProblems(card) {
  const path = card.dataset.problems;
  const isIn = (one) => one.path === path || (one.path.startsWith(path) && ".[".includes(one.path[path.length]));
  const rows = (session.problems?.rows ?? []).filter(isIn);
  card.hidden = !rows.length;
  card.replaceChildren(html("h2", {}, "New problems"), ...rows.map(problemLine));
}

export function problemLine(problem) {
  return html("p", { class: "problem-line" }, html("span", { class: `severity ${problem.severity}` }, problem.severity), " ", problem.message, html("span", { class: "note mono" }, ` ${problem.rule}`));
}

document.addEventListener("problems", () => document.querySelectorAll("[data-problems]").forEach(paintProblems));

/** The mark of a row in a list whose element has a new problem. */
export function problemMark(path) {
  const isBad = session.problems?.rows.some((one) => one.path === path || one.path.startsWith(`${path}.`));
  return isBad ? html("span", { class: "problem-mark", title: "a new problem" }, "!") : null;
}

// Marks: the nodes of the main graph to extract, by one of their outputs.

export const marks = new Map();

export function markButton(node) {
  const value = node.outputs.find((output) => output.name)?.name;
  if (!session.is_editable || node.scope !== "graph" || !value) return null;
  const button = html("button", { type: "button", class: "step", id: "mark", title: "Mark for extraction (m)" });
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

/** Load the state of the edits. show(): reloads the page's contents. */
export async function beginEdits(show) {
  refresh = show;
  Object.assign(session, await ask("edits"));
  shown = revisionNow();
  if (!session.is_editable) return;
  document.body.classList.add("edits");
  addEventListener("beforeunload", (event) => {
    if (!session.is_saved) event.preventDefault();
  });
  document.addEventListener("foreign-change", () => reload().catch(reportError));
  addEventListener("hashchange", () => shown !== revisionNow() && update().catch(reportError));
  document.addEventListener("visibilitychange", () => document.hidden || ask("edits").catch(reportError));
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    const key = event.key.toLowerCase();
    if (isTyping || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey) {
      if (key === "z") step(event.shiftKey ? "redo" : "undo").catch(reportError);
      else if (key === "y") step("redo").catch(reportError);
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
async function reload() {
  Object.assign(session, await ask("edits"));
  session.problems = null;
  const changed = session.changes[session.done - session.first - 1]?.text ?? "it undid all changes";
  reportError(new Error(`Another tab changed the model: ${changed}. ${nounText(session.done, "change")} in all.`));
  await catchUp();
  check().catch(reportError);
}

export const changesText = () => (session.done ? nounText(session.done, "change") : "No changes");
export const newText = () => (session.problems?.total ? `${countText(session.problems.total)} new ${session.problems.total === 1 ? "problem" : "problems"}` : "");
