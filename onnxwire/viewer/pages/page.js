// The page of a file: the address, the header, the outline, the list, the search, and the keys.

import { FILE, SIDE, ask, startSession, countText, decodePart, familyOf, html, nounText, shapeText, sizeText } from "./api.js";
import { addToolbar, paintToolbar, showChanges, showDifference } from "./change_list.js";
import { beginEdits, problemMark, session } from "./edit_mode.js";
import { showFields } from "./field_rows.js";
import { VirtualList } from "./list.js";
import { MapView } from "./map.js";
import { showNode } from "./node_card.js";
import { showGraph, showOverview } from "./overview.js";
import { showTensor } from "./tensor_card.js";

const elementById = (id) => document.getElementById(id);
const details = elementById("details");
const search = elementById("search");
// scope: the path of the graph that the list shows. kind: "nodes" or "tensors", which the list shows. outline: the rows of
// the outline. view: "details" or "map". node: the path of the node that is shown, or selected on the
// map, or "".
const state = { scope: "graph", kind: "nodes", outline: [], view: "details", node: "" };
let showId = 0; // incremented by each call of `show`; answers to requests of earlier calls are ignored
let timer = 0; // the id of the timer that delays a search or a selection in the list

function showError(error) {
  elementById("trouble").textContent = error.message;
  elementById("trouble").hidden = false;
}

const map = new MapView(elementById("map"), {
  setAddress: (hash, replaceHistory = false) => {
    // A selection on the map changes the address, but adds nothing to the history.
    if (replaceHistory) {
      history.replaceState(null, "", `#${hash}`);
      state.node = nodeOf(hash);
      if (state.node) markRow(state.node);
    } else location.hash = hash;
  },
  reportError: showError,
});

// The path of the node that a fragment of the address names, or "".
const nodeOf = (hash) => /^(?:map|node)=(.+\.node\[\d+\])$/.exec(decodePart(hash.replace(/^#/, "")))?.[1] ?? "";

const list = new VirtualList(elementById("list"), elementById("rows"), {
  fetch: (start, count) => ask(state.kind, { scope: state.scope, search: search.value, start, count }),
  draw: (row) => state.kind === "nodes"
    ? [
        html("div", { class: "top" }, html("span", { class: `op ${familyOf(row.op_type)}` }, row.op_type || "–"), problemMark(row.path), html("span", { class: "aside" }, countText(row.index))),
        html("div", { class: "name" }, html("bdi", {}, row.name)),
      ]
    : [
        html("div", { class: "top" }, html("span", { class: "op" }, row.data_type.toLowerCase(), ` [${row.shape.join(", ")}]`), html("span", { class: "aside" }, sizeText(row.bytes))),
        html("div", { class: "name", title: shapeText(row) }, html("bdi", {}, row.name)),
      ],
  choose: (row) => {
    const kind = state.kind === "tensors" ? "tensor" : state.view === "map" ? "map" : "node";
    const hash = `#${kind}=${encodeURIComponent(row.path)}`;
    // While an arrow key is held down, the elements of the rows that the selection passes are not shown.
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (location.hash !== hash) location.hash = hash;
    }, 90);
  },
  showTotal: (total) => {
    const noun = state.kind === "nodes" ? "node" : "tensor";
    elementById("found").textContent = search.value.trim() ? `${nounText(total, noun)} found` : nounText(total, noun);
  },
  reportError: showError,
});

/** Set the kind and the graph of the list, without loading it; returns whether one of them changes. */
function setList(kind, scope) {
  const isNew = kind !== state.kind || scope !== state.scope;
  state.kind = kind;
  state.scope = scope;
  for (const listKind of ["nodes", "tensors"]) {
    const tab = elementById(`tab-${listKind}`);
    tab.setAttribute("aria-selected", String(listKind === kind));
    tab.tabIndex = listKind === kind ? 0 : -1;
  }
  elementById("list").setAttribute("aria-label", kind === "nodes" ? "Nodes" : "Tensors");
  search.placeholder = kind === "nodes" ? "Search nodes" : "Search tensors";
  paintOutline();
  return isNew;
}

/** Draw the tree of graphs. */
function paintOutline() {
  elementById("outline").replaceChildren(...state.outline.map((row, i) => {
    const isChosen = row.path === state.scope;
    const item = html("li", { role: "treeitem", "aria-level": row.depth + 1, "aria-selected": String(isChosen), tabindex: isChosen ? 0 : -1, title: row.of || row.path, onclick: () => openGraph(row) },
      html("span", { class: "label" }, row.name || (row.kind === "graph" ? "main graph" : row.path), row.of ? html("div", { class: "kind" }, row.of) : ["function", "training"].includes(row.kind) ? html("div", { class: "kind" }, row.kind) : ""),
      html("span", { class: "count", title: nounText(row.nodes, "node") }, countText(row.nodes)));
    item.style.paddingLeft = `${8 + 14 * row.depth}px`;
    item.addEventListener("keydown", (event) => {
      const next = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: state.outline.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") openGraph(row);
      else if (next !== undefined) elementById("outline").children[Math.min(Math.max(next, 0), state.outline.length - 1)].focus();
      else return;
      event.preventDefault();
    });
    return item;
  }));
}

function openGraph(row) {
  location.hash = `${state.view === "map" ? "map" : "graph"}=${encodeURIComponent(row.path)}`;
}

/** Show the view "map" or "details". */
function setView(view) {
  state.view = view;
  elementById("map").hidden = view !== "map";
  details.hidden = view === "map";
  elementById("see-map").setAttribute("aria-pressed", String(view === "map"));
  elementById("see-details").setAttribute("aria-pressed", String(view !== "map"));
}

/** Show the current node or graph as a map (view "map") or in detail (view "details"). */
function switchView(view) {
  if (view === state.view) return;
  const kind = view === "map" ? "map" : "node";
  if (state.node) location.hash = `${kind}=${encodeURIComponent(state.node)}`;
  else location.hash = view === "map" ? `map=${encodeURIComponent(state.scope)}` : state.scope === "graph" ? "model" : `graph=${encodeURIComponent(state.scope)}`;
}

/** Select a node in the list, if the list shows the nodes of its graph. */
function markRow(path) {
  const scope = path.replace(/\.node\[\d+\]$/, "");
  if (state.kind === "nodes" && scope === state.scope) selectInList("nodes", scope, path);
}

/** Show the element that the address names. */
async function show() {
  showId += 1;
  const ownId = showId;
  const isCurrent = () => ownId === showId;
  const [, kind, encodedPath] = /^#(node|tensor|graph|fields|map)=(.*)$/.exec(location.hash) ?? [null, "", ""];
  const path = decodePart(encodedPath);
  setView(kind === "map" && session.is_model ? "map" : "details");
  state.node = nodeOf(location.hash);
  const hadFocus = details.contains(document.activeElement);
  elementById("trouble").hidden = true;
  try {
    if (kind === "map" && session.is_model) {
      const scope = state.node ? path.replace(/\.node\[\d+\]$/, "") : path.split("/")[0];
      const listReady = state.node ? selectInList("nodes", scope, path) : setList("nodes", scope) ? list.reset() : null;
      await Promise.all([map.show(path), listReady]);
      return;
    }
    if (location.hash === "#changes" && session.is_editable) await showChanges(details, isCurrent);
    else if (location.hash === "#difference" && session.is_editable) await showDifference(details, isCurrent);
    else if (kind === "tensor" && !session.is_model) await showTensor(path, details, isCurrent);
    else if (kind === "fields" || !session.is_model) await showFields(path, details, isCurrent);
    else if (kind === "node") {
      const scope = path.replace(/\.node\[\d+\]$/, "");
      await selectInList("nodes", scope, path);
      await showNode(path, details, isCurrent);
      // Keep the focus in the drawing, for keyboard navigation.
      if (hadFocus && isCurrent()) details.querySelector(".box.focus")?.focus();
    } else if (kind === "tensor") {
      const scope = /^(.*)\.initializer\[\d+\]$/.exec(path)?.[1];
      if (scope !== undefined) await selectInList("tensors", scope, path);
      const tensorShown = showTensor(path, details, isCurrent);
      if (hadFocus) details.focus();
      await tensorShown;
    } else if (kind === "graph") {
      const row = state.outline.find((graph) => graph.path === path) ?? { path, name: "", kind: "graph", of: "", nodes: 0, tensors: 0 };
      search.value = "";
      if (setList("nodes", path)) await list.reset();
      if (isCurrent()) showGraph(row, details);
    } else {
      setList(state.kind, state.scope);
      await showOverview(details, isCurrent);
    }
    if (isCurrent()) details.scrollTop = 0;
  } catch (error) {
    if (isCurrent()) showError(error);
  }
}

/**
 * Show the list of a kind and graph, and select the row of the element at a path. No-op if this row is selected already, or if the path
 * has no index. If the list is already shown with a search, no row is selected.
 */
async function selectInList(kind, scope, path) {
  const index = /\[(\d+)\]$/.exec(path)?.[1];
  if (index === undefined) return; // the path is malformed, which the server's answer reports
  if (kind === state.kind && list.row(list.activeIndex)?.path === path) return;
  const isNew = setList(kind, scope);
  if (isNew) search.value = "";
  // Keep the search, even if the element does not match it.
  if (search.value.trim()) {
    list.activeIndex = -1;
    list.paint();
  } else await list.reset(Number(index));
}

for (const kind of ["nodes", "tensors"]) {
  elementById(`tab-${kind}`).addEventListener("click", async () => {
    search.value = "";
    if (setList(kind, state.scope)) await list.reset();
  });
  elementById(`tab-${kind}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const otherTab = elementById(kind === "nodes" ? "tab-tensors" : "tab-nodes");
    otherTab.click();
    otherTab.focus();
  });
}

search.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => list.reset(), 120);
});
search.addEventListener("keydown", async (event) => {
  if (event.key === "ArrowDown" || event.key === "Enter") {
    event.preventDefault();
    clearTimeout(timer);
    await list.reset();
    elementById("list").focus();
    if (list.total) list.activate(0);
  } else if (event.key === "Escape") {
    event.stopPropagation();
    event.preventDefault();
    if (search.value) {
      search.value = "";
      list.reset();
    } else elementById("list").focus();
  }
});

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "v" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) switchView(state.view === "map" ? "details" : "map");
  else if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "Escape") {
    if (!elementById("trouble").hidden) elementById("trouble").hidden = true;
    else elementById("list").focus();
  }
});
elementById("see-map").addEventListener("click", () => switchView("map"));
elementById("see-details").addEventListener("click", () => switchView("details"));
elementById("home").addEventListener("click", () => {
  location.hash = "model";
});
elementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  details.focus();
});
addEventListener("hashchange", show);
addEventListener("unhandledrejection", (event) => showError(event.reason));
document.addEventListener("trouble", (event) => showError(event.detail));
document.addEventListener("problems", () => list.paint());

/** Show the name of the file in the header, and list the model's graphs. */
async function showFile() {
  const about = await ask("about");
  session.name = about.file.split(/[\\/]/).pop();
  session.is_model = about.is_model;
  document.title = `${session.name} – onnxwire`;
  elementById("file").textContent = session.name;
  elementById("file").title = about.file;
  if (!about.is_model) {
    elementById("about").textContent = `${about.type}, ${sizeText(about.bytes)}`;
    document.body.classList.add("message");
    return;
  }
  const summary = await ask("summary");
  elementById("about").textContent = `${sizeText(summary.bytes)}, ${nounText(summary.nodes.count, "node")}, ${nounText(summary.tensors.count, "tensor")}`;
  const outline = await ask("outline");
  state.outline = outline.rows;
  setList(state.kind, state.scope);
  if (outline.left_off) elementById("outline").append(html("li", { class: "kind" }, `and ${nounText(outline.left_off, "more graph")}`));
}

/** Reload everything after a change, at the same scroll positions. */
async function refresh() {
  const [listTop, detailsTop] = [elementById("list").scrollTop, details.scrollTop];
  await showFile();
  map.discard();
  paintToolbar();
  if (session.is_model) {
    await list.reset(list.activeIndex);
    elementById("list").scrollTop = listTop;
  }
  await show();
  details.scrollTop = detailsTop;
}

if (FILE !== null) document.querySelector("header").insertBefore(html("a", { href: "./", class: "small-button", title: "Open another file" }, "Open…"), elementById("about"));
if (SIDE !== null) {
  document.body.classList.add("side");
  document.documentElement.addEventListener("compared", () => {
    map.discard();
    show();
  });
}

try {
  await startSession();
  const about = await ask("about");
  session.is_model = about.is_model;
  session.is_tensor = about.is_tensor;
  // A model is shown as a map first, which does not wait for the other parts of the page.
  if (location.hash.length <= 1 && session.is_model) history.replaceState(null, "", "#map=graph");
  else if (location.hash.length <= 1 && session.is_tensor) history.replaceState(null, "", "#tensor=");
  const mapShown = session.is_model && location.hash.startsWith("#map=") ? show() : null;
  await showFile();
  await beginEdits(refresh);
  addToolbar(document.querySelector("header"));
  await Promise.all([location.hash.length > 1 || !session.is_model ? null : list.reset(), mapShown ?? show()]);
  if (session.is_model && !list.total) await list.reset();
  document.body.dataset.ready = "yes";
} catch (error) {
  showError(error);
}
