// The toolbar with undo, redo, extract and save; files that replace tensors; the list of changes, new problems, and the differences
// from the opened file.

import { ask, countText, decodePart, html, link, nounText, setChildren, send, sendFile, sizeText } from "./api.js";
import { change, changesText, marks, newProblemsText, openDialog, problemLine, reportError, displayedRevisionNow, session, undoOrRedo } from "./edit_mode.js";

/** Add the toolbar to the header. No-op on a read-only page. */
export function addToolbar(header) {
  if (!session.is_editable) return;
  const button = (id, text, title, onClick) => html("button", { type: "button", class: "small-button", id, title, "data-key": id, onclick: onClick }, text);
  const bar = html("div", { id: "bar", role: "toolbar", "aria-label": "Edits" },
    button("undo", "Undo", "Undo the last change (Ctrl+Z)", () => undoOrRedo("undo").catch(reportError)),
    button("redo", "Redo", "Redo the undone change (Ctrl+Shift+Z)", () => undoOrRedo("redo").catch(reportError)),
    button("show-changes", "", "List the changes", () => { location.hash = "changes"; }),
    button("extract", "", "Save the marked nodes as a model", extractMarked),
    button("save", "Save as…", "Write a file (Ctrl+S)", saveAs));
  header.insertBefore(bar, header.querySelector(".keys"));
  for (const event of ["problems", "marks", "edited"]) document.addEventListener(event, paintToolbar);
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", handleDrop);
  paintToolbar();
}

/** Update the buttons of the toolbar to the state of the edits. */
export function paintToolbar() {
  const elementById = (id) => document.getElementById(id);
  if (!elementById("bar")) return;
  elementById("undo").disabled = !session.done;
  elementById("redo").disabled = session.done === session.total;
  elementById("show-changes").replaceChildren(changesText(), session.is_saved ? "" : html("span", { class: "dot", title: "not saved" }), newProblemsText() && html("span", { class: "new" }, newProblemsText()));
  elementById("extract").hidden = !marks.size;
  elementById("extract").textContent = `Extract ${countText(marks.size)}…`;
  elementById("save").classList.toggle("main", !session.is_saved);
}

/** Return the name of the opened file without its extension. */
const fileStem = () => session.name.replace(/\.[^.]*$/, "");
/** Return the extension of the opened file with its dot. */
const fileExtension = () => /\.[^.]*$/.exec(session.name)?.[0] ?? "";
/** Return the hint below the field for a file name. */
const fileHint = () => `A file name in ${session.folder}, or an absolute path.`;

/** Open the dialog that saves the edited model, or another edited protobuf message. */
function saveAs() {
  const revision = displayedRevisionNow();
  openDialog({
    title: "Save as",
    action: "Save",
    fields: [
      { name: "path", label: "file", value: `${fileStem()}-edited${fileExtension()}`, hint: fileHint() },
      { name: "replace", label: "replace an existing file", form: "check" },
      { name: "words", label: `${session.name} is the opened file; to overwrite it, type: ${session.words_for_original}`, placeholder: session.words_for_original },
    ],
    adapt: (form) => {
      const isOpenedFile = [session.name, `${session.folder}/${session.name}`].includes(form.elements.path.value.trim());
      form.elements.words.closest(".control").hidden = !isOpenedFile;
      form.elements.replace.closest(".control").hidden = isOpenedFile;
    },
    run: async (values) => {
      const state = await send("save", { revision, ...values });
      Object.assign(session, state);
      paintToolbar();
      showNotice(`Saved ${state.path} (${sizeText(state.bytes)}).`, state.warnings);
    },
  });
}

/** Open the dialog that saves the marked nodes as a model. */
function extractMarked() {
  const revision = displayedRevisionNow();
  openDialog({
    title: `Extract ${nounText(marks.size, "node")}`,
    action: "Extract",
    note: `${[...marks.values()].slice(0, 6).join(", ")}${marks.size > 6 ? ", …" : ""} ${marks.size === 1 ? "becomes a new model with its" : "become a new model with their"} inputs and outputs; this model stays unchanged.`,
    fields: [
      { name: "path", label: "file", value: `${fileStem()}-part${fileExtension()}`, hint: fileHint() },
      { name: "replace", label: "replace an existing file", form: "check" },
    ],
    run: async (values) => {
      const part = await send("extract", { revision, values: [...marks.keys()], ...values });
      marks.clear();
      paintToolbar();
      showNotice(`Saved ${part.path} (${nounText(part.nodes, "node")}, ${sizeText(part.bytes)}) from ${part.inputs.join(", ") || "nothing"} to ${part.outputs.join(", ")}.`, part.warnings);
    },
  });
}

/** Show a notice until the user closes it or the next notice replaces it. warnings: texts below the text. */
function showNotice(text, warnings = []) {
  document.getElementById("notice")?.remove();
  const box = html("div", { id: "notice", role: "status" }, html("p", {}, text), ...warnings.map((warning) => html("p", { class: "note" }, warning)));
  box.append(html("button", { type: "button", class: "small-button", onclick: () => box.remove() }, "Close"));
  document.body.append(box);
}

// Dropped files

async function handleDrop(event) {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  if (file) await replaceByFile(file).catch(reportError);
}

/**
 * Replace the tensor that the page shows by a tensor of a file. The user chooses among several tensors if none of them has the name of the shown tensor.
 * If the page shows no tensor, replace each initializer that has the name of a tensor in a .safetensors file.
 * Throws an error for a file that is too large or has no tensors, and the errors of the server.
 */
export async function replaceByFile(file) {
  if (file.size > session.max_upload_bytes) throw new Error(`${file.name} has ${sizeText(file.size)}; the limit is ${sizeText(session.max_upload_bytes)}.`);
  const revision = displayedRevisionNow();
  const encodedPath = /^#tensor=(.+)$/.exec(location.hash)?.[1];
  document.body.classList.add("busy");
  const upload = await sendFile(file).finally(() => document.body.classList.remove("busy"));
  if (!encodedPath) return change("replace_tensors", { upload: upload.id }, { revision });
  const path = decodePart(encodedPath);
  if (upload.form === "npy") return change("replace_tensor", { path, upload: upload.id, name: "" }, { revision });
  const names = upload.tensors.map((tensorEntry) => tensorEntry.name);
  const shownName = document.querySelector("#details h1")?.textContent;
  if (names.includes(shownName) || names.length === 1) return change("replace_tensor", { path, upload: upload.id, name: names.includes(shownName) ? shownName : names[0] }, { revision });
  if (!names.length) throw new Error(`${file.name} has no tensors.`);
  return openDialog({
    title: `Which tensor of ${file.name}?`,
    action: "Replace",
    fields: [{ name: "name", label: "tensor", value: names[0], choices: names }],
    run: ({ name }) => change("replace_tensor", { path, upload: upload.id, name }, { revision }),
  });
}

/** Return a card to replace the shown tensor by a file; null on a read-only page. */
export function replacementCard() {
  if (!session.is_editable) return null;
  const input = html("input", { type: "file", id: "file-input", accept: ".npy,.safetensors", class: "unseen", tabindex: -1, "aria-label": "File for the tensor" });
  input.addEventListener("change", () => input.files[0] && replaceByFile(input.files[0]).catch(reportError));
  return html("section", { class: "card drop", "aria-label": "Replace the tensor" },
    html("button", { type: "button", class: "small-button", "data-key": "Replace", onclick: () => input.click() }, "Replace by a file…"), input,
    html("span", { class: "note" }, "or drop an .npy or .safetensors file here; it replaces the elements, type and shape."));
}

// Contents of the region for details

/** Show the list of changes, and the problems that they cause. isCurrent(): returns false if the user has opened something else. */
export async function showChanges(details, isCurrent) {
  const state = await ask("edits");
  if (!isCurrent()) return;
  Object.assign(session, state);
  const undoneCount = session.total - session.done;
  const rows = session.changes.map((listedChange, i) => {
    const isInEffect = session.first + i < session.done;
    return html("li", { class: isInEffect ? "" : "undone" }, html("span", {}, listedChange.text), isInEffect ? "" : html("span", { class: "note" }, "  undone"));
  });
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, "Changes"), html("span", { class: "sub" }, session.is_saved ? "all saved" : "not saved")),
    html("section", { class: "card" },
      html("div", { class: "bar" }, html("h2", {}, `${changesText()}${undoneCount ? `, ${countText(undoneCount)} undone` : ""}`),
        ...(session.is_model ? [html("button", { type: "button", class: "small-button", onclick: () => { location.hash = "difference"; } }, "Compare with the file"), html("kbd", {}, "d")] : [])),
      rows.length ? html("ol", { class: "changes", start: session.first + 1 }, ...rows) : html("p", { class: "note" }, "Your changes are listed here. No file is written before you save.")),
    html("section", { class: "card", id: "new-problems" }),
  );
  paintNewProblems();
}

/** List the new problems, if their card is shown. */
function paintNewProblems() {
  const card = document.getElementById("new-problems");
  if (!card) return;
  const problems = session.problems;
  const text = !session.done ? "There are no changes." : !problems ? "checking…" : problems.total ? "" : "The changes cause no problems.";
  card.replaceChildren(html("h2", {}, "New problems"), text && html("p", { class: "note", role: "status" }, text),
    ...(problems?.rows ?? []).map((problem) => html("div", { class: "problem-row" }, problemLine(problem), problemLink(problem.path))),
    problems?.left_off ? html("p", { class: "note" }, `and ${nounText(problems.left_off, "more problem")}`) : "",
    problems?.gone ? html("p", { class: "note" }, `${nounText(problems.gone, "problem")} of the file ${problems.gone === 1 ? "is" : "are"} fixed.`) : "");
}

document.addEventListener("problems", paintNewProblems);

/** Return a link to the element with a problem, or to the node that contains it. path: the path of the element. */
function problemLink(path) {
  const nodePath = /^(.*\.node\[\d+\])/.exec(path)?.[1];
  if (nodePath) return link("node", nodePath, path);
  const tensorPath = /^(.*(?<!sparse_)initializer\[\d+\])$/.exec(path)?.[1];
  return tensorPath ? link("tensor", tensorPath, path) : link("fields", path, path || "the model");
}

/** Show the differences between the edited model and the opened file. isCurrent(): returns false if the user has opened something else. */
export async function showDifference(details, isCurrent) {
  setChildren(details, html("div", { class: "head" }, html("h1", {}, "Compared with the file")), html("p", { class: "note", role: "status" }, "comparing…"));
  const answer = await ask("differences").catch((error) => ({ rows: [], is_whole: true, error }));
  if (!isCurrent()) return;
  if (answer.error) {
    details.lastChild.textContent = answer.error.message;
    return;
  }
  const signs = { added: "+", removed: "−", changed: "~" };
  const rows = answer.rows.map((row) => html("tr", { class: row.change },
    html("td", { class: "mono", title: row.change }, signs[row.change]),
    html("td", {}, `${row.kind} ${row.name}`, row.part && html("span", { class: "note" }, ` ${row.part}`)),
    html("td", { class: "mono" }, row.old ?? ""), html("td", { class: "mono" }, row.new ?? "")));
  setChildren(details,
    html("div", { class: "head" }, html("h1", {}, "Compared with the file"), html("span", { class: "sub" }, answer.is_whole ? nounText(rows.length, "difference") : `the first ${nounText(rows.length, "difference")}`)),
    html("section", { class: "card" }, rows.length
      ? html("table", { class: "differences" }, html("tr", {}, html("th", {}), html("th", {}, "element"), html("th", {}, "in the file"), html("th", {}, "now")), ...rows)
      : html("p", { class: "note" }, "There is no difference.")),
  );
}
