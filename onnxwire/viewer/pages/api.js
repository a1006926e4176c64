// Requests to the server, and functions that build elements and format values.

const KEY_HEADER = "X-Onnxwire-Key"; // the header with the key of every request
const REVISION_HEADER = "X-Onnxwire-Revision"; // the header of answers with the revision of the model
const STORAGE_KEY = "onnxwire key"; // where the tab stores the key of the server
/** The number of the shown model, in a frame of the page that compares two models; null on any other page. */
export const SIDE = new URLSearchParams(location.search).get("side");
/** The id of the file that this page shows, if the start page opened it; null for the file of the command. */
export const FILE = new URLSearchParams(location.search).get("file");
let revision = -1; // the newest revision of the model in any answer

/** Throw the error for a request without an answer. */
function failUnanswered() {
  throw new Error("The server does not answer: onnxwire view has ended. Start it again, and open the address that it prints.");
}

/** Send a request, and return its answer. Throws the server's error. */
async function request(path, key, options = {}) {
  const headers = { [KEY_HEADER]: key, ...options.headers };
  const response = await fetch(path, { ...options, headers }).catch(failUnanswered);
  const answer = await response.json().catch(failUnanswered); // the server may end after the first bytes of an answer
  const receivedRevision = Number(response.headers.get(REVISION_HEADER) ?? -1);
  const isNewer = revision >= 0 && receivedRevision > revision;
  revision = Math.max(revision, receivedRevision);
  // Changes by this tab are shown already.
  if (isNewer && (options.method !== "POST" || !response.ok)) document.dispatchEvent(new CustomEvent("foreign-change"));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Return the newest known revision of the model. */
export const newestRevision = () => revision;

/** Send an action to the server; the answer is the state after it. */
export function send(action, values) {
  const headers = { "Content-Type": "application/json" };
  return request(`api/${action}`, sessionStorage.getItem(STORAGE_KEY) ?? "", { method: "POST", headers, body: JSON.stringify(values) });
}

/** Upload a file. values: other arguments of the request. */
export function sendFile(file, values = {}) {
  const headers = { "Content-Type": "application/octet-stream" };
  const query = new URLSearchParams({ name: file.name, ...values });
  return request(`api/upload?${query}`, sessionStorage.getItem(STORAGE_KEY) ?? "", { method: "POST", headers, body: file });
}

/** Exchange the token in the address for the key, and store the key until this tab is closed. */
export async function startSession() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const { key } = await request("api/session", token);
  sessionStorage.setItem(STORAGE_KEY, key);
}

/** Decode a part of the address. Malformed percent-encoding is returned unchanged; no element has such a path. */
export function decodePart(encodedPart) {
  try {
    return decodeURIComponent(encodedPart);
  } catch {
    return encodedPart;
  }
}

/** Send a query to the server. values: the arguments; null arguments are omitted. */
export function ask(queryName, values = {}) {
  const entries = Object.entries({ ...values, side: SIDE, file: FILE }).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(entries.map(([name, value]) => [name, value === true ? "1" : String(value)]));
  return request(`api/${queryName}?${query}`, sessionStorage.getItem(STORAGE_KEY) ?? "");
}

/** Add attributes, event listeners (names with "on") and children to an element; null and false are skipped. */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make an HTML element; strings become text nodes, never markup. */
export const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
/** Replace all children of an element; null and false are skipped. */
export const setChildren = (element, ...children) => {
  element.replaceChildren();
  return fill(element, {}, children);
};
/** Make an SVG element. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** Format a number of bytes: 1.50 KiB. */
export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 6);
  const value = bytes / 1024 ** power;
  return `${value.toFixed(value < 10 ? 2 : 1)} ${["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power - 1]}`;
}

/** Format a count with separators: 1,000. */
export const countText = (count) => count.toLocaleString("en");

/** Format a count with its noun: 1 node, 2 nodes. */
export const nounText = (count, noun) => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Format a number with up to five digits, or a short integer with all digits; a dash for null. */
export function numberText(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  return Number(value.toPrecision(5)).toString();
}

/** Format the data type and shape of a tensor: float[64, 3]. */
export const shapeText = (row) => `${row.data_type.toLowerCase()}[${row.shape.join(", ")}]`;

// The families of operators by their color classes; the first matching family is used.
const FAMILIES = {
  math: /^(Q?Linear)?(Conv|MatMul|Gemm|Einsum|Attention|FusedMatMul|LSTM|GRU|RNN|Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Sin|Cos|Abs|Neg|Sum|Max$|Min$|TreeEnsemble|Scaler)/,
  norm: /Norm|Dropout|Reduce|Pool|Quantize/,
  act: /Relu|Sigmoid|Softmax|Tanh|Gelu|Elu|Erf|Swish|Silu|Clip|Argmax|HardSwish/i,
  move: /Reshape|Transpose|squeeze|Concat|Split|Slice|Gather|Scatter|Shape|Cast|Expand|Identity|Constant|Flatten|Pad|Tile|Range|Where|Trilu|ZipMap/i,
};

/** Return the color class of an operator. */
export const familyOf = (op) => Object.keys(FAMILIES).find((family) => FAMILIES[family].test(op)) ?? "other";

/** Return a name as nodes that allow line breaks between its parts. */
export const nameParts = (name) => name.split(/(?<=[./_])/).flatMap((part, i) => (i ? [html("wbr"), part] : [part]));

/** Make a button that opens a node, tensor, graph or field. */
export function link(kind, path, text, attributes = {}) {
  const open = () => {
    location.hash = `${kind}=${encodeURIComponent(path)}`;
  };
  return html("button", { type: "button", class: "link", onclick: open, ...attributes }, ...nameParts(text));
}
