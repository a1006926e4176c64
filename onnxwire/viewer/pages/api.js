// Requests to the server, and functions that build elements and format values.

const KEY_HEADER = "X-Onnxwire-Key"; // the header with the key, in every request
const REVISION_HEADER = "X-Onnxwire-Revision"; // the header with the revision of the model, in answers
const STORAGE_KEY = "onnxwire key"; // the name under which the tab stores the key
/** In a frame of the page that compares two models: "0" for the first model, "1" for the second; null on any other page. */
export const SIDE = new URLSearchParams(location.search).get("side");
/** The id of the file that this page shows, if the start page opened the file; null on any other page. */
export const FILE = new URLSearchParams(location.search).get("file");
let revision = -1; // the newest revision of the model in any answer, -1 if no answer had one

/** Throw the error for a request without a complete answer. */
function failUnanswered() {
  throw new Error("The server does not answer: onnxwire view has ended. Start it again, and open the address that it prints.");
}

/**
 * Send a request, and return the decoded answer. path: the address; key: the value of KEY_HEADER; options: as for `fetch`.
 * Dispatches the event "foreign-change" if another tab changed the model. Throws an error with the server's text,
 * or the error of `failUnanswered`.
 */
async function request(path, key, options = {}) {
  const headers = { [KEY_HEADER]: key, ...options.headers };
  const response = await fetch(path, { ...options, headers }).catch(failUnanswered);
  const answer = await response.json().catch(failUnanswered); // the server may end after the first bytes of an answer
  const receivedRevision = Number(response.headers.get(REVISION_HEADER) ?? -1);
  const isNewer = revision >= 0 && receivedRevision > revision;
  revision = Math.max(revision, receivedRevision);
  // The sender of a successful action shows the new revision itself.
  if (isNewer && (options.method !== "POST" || !response.ok)) document.dispatchEvent(new CustomEvent("foreign-change"));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Return the newest known revision of the model. */
export const newestRevision = () => revision;

/** Send an action to the server, and return the answer. values: the arguments of the action. */
export function send(action, values) {
  const headers = { "Content-Type": "application/json" };
  return request(`api/${action}`, sessionStorage.getItem(STORAGE_KEY) ?? "", { method: "POST", headers, body: JSON.stringify(values) });
}

/** Upload a file, and return the answer. values: arguments of the request other than the name of the file. */
export function sendFile(file, values = {}) {
  const headers = { "Content-Type": "application/octet-stream" };
  const query = new URLSearchParams({ name: file.name, ...values });
  return request(`api/upload?${query}`, sessionStorage.getItem(STORAGE_KEY) ?? "", { method: "POST", headers, body: file });
}

/** Exchange the token in the address for the key, and store the key until this tab is closed. No-op without a token. */
export async function startSession() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const { key } = await request("api/session", token);
  sessionStorage.setItem(STORAGE_KEY, key);
}

/** Decode a part of the address. Malformed percent-encoding is returned unchanged. */
export function decodePart(encodedPart) {
  try {
    return decodeURIComponent(encodedPart);
  } catch {
    return encodedPart;
  }
}

/** Send a query to the server, and return the answer. values: the arguments; null and undefined are omitted, true is sent as 1. */
export function ask(queryName, values = {}) {
  const entries = Object.entries({ ...values, side: SIDE, file: FILE }).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(entries.map(([name, value]) => [name, value === true ? "1" : String(value)]));
  return request(`api/${queryName}?${query}`, sessionStorage.getItem(STORAGE_KEY) ?? "");
}

/** Add attributes, event listeners (names that start with "on") and children to an element. Skips null, undefined and false. */
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
/** Replace all children of an element. Skips null, undefined and false. */
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

/** Format an integer between -10**9 and 10**9 with all digits, any other number with up to five significant digits; a dash for null. */
export function numberText(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  return Number(value.toPrecision(5)).toString();
}

/** Format the data type and shape of a tensor: float[64, 3]. */
export const shapeText = (row) => `${row.data_type.toLowerCase()}[${row.shape.join(", ")}]`;

// Regular expressions for the operators of each color class (CSS class); the first matching class is used.
const FAMILIES = {
  math: /^(Q?Linear)?(Conv|MatMul|Gemm|Einsum|Attention|FusedMatMul|LSTM|GRU|RNN|Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Sin|Cos|Abs|Neg|Sum|Max$|Min$|TreeEnsemble|Scaler)/,
  norm: /Norm|Dropout|Reduce|Pool|Quantize/,
  act: /Relu|Sigmoid|Softmax|Tanh|Gelu|Elu|Erf|Swish|Silu|Clip|Argmax|HardSwish/i,
  move: /Reshape|Transpose|squeeze|Concat|Split|Slice|Gather|Scatter|Shape|Cast|Expand|Identity|Constant|Flatten|Pad|Tile|Range|Where|Trilu|ZipMap/i,
};

/** Return the color class of an operator. */
export const familyOf = (op) => Object.keys(FAMILIES).find((family) => FAMILIES[family].test(op)) ?? "other";

/** Return the parts of a name, with elements between them that allow line breaks. */
export const nameParts = (name) => name.split(/(?<=[./_])/).flatMap((part, i) => (i ? [html("wbr"), part] : [part]));

/** Make a button that opens an element of the model. kind: the kind in the address: "node", "tensor", "graph", "fields" or "map". */
export function link(kind, path, text, attributes = {}) {
  const open = () => {
    location.hash = `${kind}=${encodeURIComponent(path)}`;
  };
  return html("button", { type: "button", class: "link", onclick: open, ...attributes }, ...nameParts(text));
}
