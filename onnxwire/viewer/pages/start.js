// The start page: open a file by its path, by uploading it, or from a list.

import { ask, startSession, html, send, sendFile, sizeText } from "./api.js";

const elementById = (id) => document.getElementById(id);

function showError(error) {
  elementById("status").textContent = "";
  elementById("trouble").textContent = error.message;
  elementById("trouble").hidden = false;
}

/** Open a file, and show its page. name: the name or path of the file; action(): opens the file, and returns the server's answer. */
async function openAndShow(name, action) {
  elementById("trouble").hidden = true;
  elementById("status").textContent = `opening ${name}…`;
  try {
    const { file } = await action();
    location.assign(`index.html?${new URLSearchParams({ file })}`);
  } catch (error) {
    showError(error);
  }
}

const openPath = (path, type = elementById("type").value) => openAndShow(path, () => send("open", { path, type }));

/** Upload a file, and show its page. No-op if `file` is undefined. */
function openFile(file) {
  if (!file) return null;
  return openAndShow(file.name, async () => {
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new Error(`${file.name} can't be read; it may be a folder.`);
    });
    // The size is checked here, because the server's answer may be lost while the browser is still sending a large file.
    const { limit, free } = await ask("start");
    if (file.size > limit) throw new Error(`${file.name} has ${sizeText(file.size)}; open it by its path. Files that are sent may have at most ${sizeText(limit)}.`);
    if (file.size > free) throw new Error(`${file.name} has ${sizeText(file.size)}, but ${sizeText(free)} are free for temporary files; open it by its path.`);
    return sendFile(file, { type: elementById("type").value });
  });
}

const fileLink = (path) => html("button", { type: "button", class: "link", onclick: () => openPath(path) }, html("bdi", {}, path));

/** Show the upload limit, the folder, the message types and the lists of files. state: the answer to `start` or `forget`. */
function paint(state) {
  elementById("limit").textContent = `Up to ${sizeText(state.limit)}; files of external data are not sent. The file is copied to a temporary file.`;
  elementById("folder").textContent = state.folder;
  if (!elementById("type").childElementCount) elementById("type").replaceChildren(...state.types.map((name) => html("option", {}, name)));
  elementById("recent").replaceChildren(...state.recent.map((path) => html("li", {}, fileLink(path),
    html("button", { type: "button", class: "aside", "aria-label": `Forget ${path}`, title: "Remove from this list", onclick: () => send("forget", { path }).then(paint, showError) }, "×"))));
  elementById("files").replaceChildren(...state.files.map((file) => html("li", {}, fileLink(file.name), html("span", { class: "aside" }, sizeText(file.bytes)))));
  for (const id of ["recent", "files"]) elementById(id).closest("section").hidden = !elementById(id).childElementCount;
}

elementById("open").addEventListener("submit", (event) => {
  event.preventDefault();
  if (elementById("path").value.trim()) openPath(elementById("path").value);
});
elementById("file").addEventListener("change", () => openFile(elementById("file").files[0]));
// Listen on the whole page, since the browser would open a file that is dropped outside of the box `drop`.
for (const name of ["dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    elementById("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") openFile(event.dataTransfer.files[0]);
  });
}
// The Back button of the browser shows the page in its last state, which may be outdated.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  elementById("status").textContent = "";
  ask("start").then(paint, showError);
});

try {
  await startSession();
  paint(await ask("start"));
  elementById("path").focus();
  document.body.dataset.ready = "yes";
} catch (error) {
  showError(error);
}
