// Questions to the server, and what pages are made of.

const HEADER = "X-Onnxwire-Key";
const REVISION = "X-Onnxwire-Revision";
const KEPT = "onnxwire key";
let revision = -1; // of the model, as far as this tab knows; it only grows

async function request(path, key, sent = {}) {
  const headers = { [HEADER]: key, ...sent.headers };
  const response = await fetch(path, { ...sent, headers }).catch(() => {
    throw new Error("The server is gone: onnxwire view was ended. Start it again, and open the address that it prints.");
  });
  const answer = await response.json();
  const told = Number(response.headers.get(REVISION) ?? -1);
  const isNews = revision >= 0 && told > revision;
  revision = Math.max(revision, told);
  // What this tab changed itself, it shows itself.
  if (isNews && (sent.method !== "POST" || !response.ok)) document.dispatchEvent(new CustomEvent("foreign-change"));
  if (!response.ok) throw Object.assign(new Error(answer.error), { isStale: response.status === 409 });
  return answer;
}

/** The revision of the model that the page shows; a change says which one it is meant for. */
export const revisionNow = () => revision;

/** Have the server do something; the answer is its state afterwards. */
export function send(action, values) {
  const headers = { "Content-Type": "application/json" };
  return request(`api/${action}`, sessionStorage.getItem(KEPT) ?? "", { method: "POST", headers, body: JSON.stringify(values) });
}

/** Give the server a file. */
export function sendFile(file) {
  const headers = { "Content-Type": "application/octet-stream" };
  const query = new URLSearchParams({ name: file.name });
  return request(`api/upload?${query}`, sessionStorage.getItem(KEPT) ?? "", { method: "POST", headers, body: file });
}

/** Exchange the token of the address for the key, which only this tab keeps; a reload finds it again. */
export async function begin() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const { key } = await request("api/session", token);
  sessionStorage.setItem(KEPT, key);
}

/** A part of the address as text. One that is not percent-encoded UTF-8 is taken as it is, and will not be found. */
export function decodePart(code) {
  try {
    return decodeURIComponent(code);
  } catch {
    return code;
  }
}

/** Ask the server; values are the arguments, of which null ones are left out. */
export function ask(question, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given.map(([name, value]) => [name, value === true ? "1" : String(value)]));
  return request(`api/${question}?${query}`, sessionStorage.getItem(KEPT) ?? "");
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; text of the model goes in as text, never as markup. */
export const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
/** Put other children into an element; what is null or false is left out. */
export const replace = (element, ...children) => {
  element.replaceChildren();
  return fill(element, {}, children);
};
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 6);
  const value = bytes / 1024 ** power;
  return `${value.toFixed(value < 10 ? 2 : 1)} ${["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power - 1]}`;
}

export const countText = (count) => count.toLocaleString("en");

/** A count with its noun: 1 node, 2 nodes. */
export const nounText = (count, noun) => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

export function numberText(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  return Number(value.toPrecision(5)).toString();
}

export const shapeText = (row) => `${row.data_type.toLowerCase()}[${row.shape.join(", ")}]`;

const FAMILIES = {
  math: /^(Q?Linear)?(Conv|MatMul|Gemm|Einsum|Attention|FusedMatMul|LSTM|GRU|RNN|Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Sin|Cos|Abs|Neg|Sum|Max$|Min$|TreeEnsemble|Scaler)/,
  norm: /Norm|Dropout|Reduce|Pool|Quantize/,
  act: /Relu|Sigmoid|Softmax|Tanh|Gelu|Elu|Erf|Swish|Silu|Clip|Argmax|HardSwish/i,
  move: /Reshape|Transpose|squeeze|Concat|Split|Slice|Gather|Scatter|Shape|Cast|Expand|Identity|Constant|Flatten|Pad|Tile|Range|Where|Trilu|ZipMap/i,
};

/** The color class of an operator: what it is for, by its name. */
export const familyOf = (op) => Object.keys(FAMILIES).find((family) => FAMILIES[family].test(op)) ?? "other";

/** A name that may be broken where its parts end. */
export const nameParts = (name) => name.split(/(?<=[./_])/).flatMap((part, i) => (i ? [html("wbr"), part] : [part]));

/** A button that leads to a node, tensor, graph or bytes. */
export function link(kind, path, text, attributes = {}) {
  const go = () => {
    location.hash = `${kind}=${encodeURIComponent(path)}`;
  };
  return html("button", { type: "button", class: "link", onclick: go, ...attributes }, ...nameParts(text));
}
