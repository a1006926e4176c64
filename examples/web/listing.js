/** Lists the nodes and tensors of the main graph, subgraphs and functions of a model, in the order of the bytes. */
import {DamagedError, Reader} from "./onnxwire.js";

/** The maximum number of listed rows. */
export const MAX_ROWS = 1_000_000;
/** The maximum number of characters of all listed texts together. */
const MAX_CHARACTERS = 100_000_000;
/** The maximum number of listed inputs or outputs of a node, and of listed operator sets. */
const MAX_VALUES = 32;
/** The maximum number of listed characters of a text. */
const MAX_NAME_CHARACTERS = 300;
/** The number of rows between two calls of `onRows`. */
const BATCH_ROWS = 2000;
const TENSOR_CODE = 12; // the ow_code for dims or external data that no program can use

/** Names of the values of TensorProto.DataType. */
const TYPE_NAMES = [
  "undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64",
  "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
  "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2", "float6e2m3", "float6e3m2",
];

/**
 * @typedef {object} NodeRow
 * @property {string} graph path of its graph: "" for the main graph
 * @property {number} index in its graph
 * @property {string} domain
 * @property {string} operator
 * @property {string} name
 * @property {string[]} inputs at most 32
 * @property {string[]} outputs at most 32
 * @property {number} nInputs number of all inputs
 * @property {number} nOutputs number of all outputs
 *
 * @typedef {object} TensorRow
 * @property {string} where path of the list or attribute with the tensor, such as "initializer" or "node[3].value";
 *   for a part of a sparse tensor, followed by ".values" or ".indices"
 * @property {string} name
 * @property {string} type name of the data type, such as "float32"
 * @property {string} dims such as "1×3×224"
 * @property {number} bytes of the elements
 * @property {string} stored "inline", or the path of the file with the elements; "external" if the path is empty
 * @property {string} problem why the tensor cannot be read, or ""
 *
 * @typedef {object} Listing
 * @property {string} producer
 * @property {string} irVersion
 * @property {string[]} opsets such as "ai.onnx 17"
 * @property {string} name of the main graph
 * @property {NodeRow[]} nodes
 * @property {TensorRow[]} tensors
 */

/** The model has more rows or longer names than a listing may contain. The listed rows are correct, but the last one may be incomplete. */
export class LimitError extends Error {}

class Lister {
  /**
   * Each method that lists a message, except `model`, reads the current value of `reader`. The path of a graph
   * is, for example, "node[3].body" or "functions[0]"; that of the main graph is "".
   * @param {Reader} reader @param {Listing} listing @param {() => Promise<void> | void} onRows
   */
  constructor(reader, listing, onRows) {
    this.reader = reader;
    this.listing = listing;
    this.onRows = onRows;
    this.nRows = 0;
    this.nCharacters = 0;
  }

  /** Calls a function for each value of the current message. @param {(name: string) => Promise<void> | void} visit */
  async each(visit) {
    const {reader} = this;
    while (reader.step() || (await reader.settle())) {
      const pending = visit(reader.field.name);
      if (pending) await pending;
    }
  }

  /** Calls a function for each value of the message that is the current value. @param {(name: string) => Promise<void> | void} visit */
  async eachInside(visit) {
    this.reader.enter();
    await this.each(visit);
    this.reader.leave();
  }

  /** Reads a text, by default the current value, and truncates it to 300 characters. @param {import("./onnxwire.js").Span} [span] */
  async text(span) {
    const text = this.reader.peek(span) ?? (await this.reader.text(span));
    this.nCharacters += Math.min(text.length, MAX_NAME_CHARACTERS);
    if (this.nCharacters > MAX_CHARACTERS) throw new LimitError("The names are too long to show all of them.");
    return text.length > MAX_NAME_CHARACTERS ? text.slice(0, MAX_NAME_CHARACTERS) + "…" : text;
  }

  /** Counts a row, and calls `onRows` after each batch of rows. */
  async countRow() {
    if (++this.nRows > MAX_ROWS) throw new LimitError("The model has more than a million nodes and tensors.");
    if (this.nRows % BATCH_ROWS === 0) await this.onRows();
  }

  /** Lists the model. */
  async model() {
    const {reader, listing} = this;
    let nFunctions = 0;
    await this.each(async (field) => {
      if (field === "ir_version") listing.irVersion = String(reader.number);
      else if (field === "producer_name") listing.producer = await this.text();
      else if (field === "opset_import") await this.opset();
      else if (field === "graph") await this.graph("");
      else if (field === "functions") await this.graph(`functions[${nFunctions++}]`);
    });
    await this.onRows();
  }

  /** Lists an operator set. */
  async opset() {
    let domain = "", version = "";
    await this.eachInside(async (field) => {
      if (field === "domain") domain = await this.text();
      else if (field === "version") version = String(this.reader.number);
    });
    if (this.listing.opsets.length < MAX_VALUES) this.listing.opsets.push(`${domain || "ai.onnx"} ${version}`);
  }

  /** Lists a graph or function. @param {string} path */
  async graph(path) {
    let nNodes = 0;
    await this.eachInside(async (field) => {
      if (field === "node") await this.node(path, nNodes++);
      else if (field === "initializer") await this.tensor(path ? `${path}.initializer` : "initializer");
      else if (field === "sparse_initializer") await this.sparse(path ? `${path}.sparse_initializer` : "sparse_initializer");
      else if (field === "name" && path === "") this.listing.name = await this.text();
    });
  }

  /** Lists a node and the tensors and graphs in its attributes. @param {string} graph @param {number} index */
  async node(graph, index) {
    /** @type {NodeRow} */
    const row = {graph, index, domain: "", operator: "", name: "", inputs: [], outputs: [], nInputs: 0, nOutputs: 0};
    this.listing.nodes.push(row);
    await this.countRow();
    await this.eachInside(async (field) => {
      if (field === "op_type") row.operator = await this.text();
      else if (field === "name") row.name = await this.text();
      else if (field === "domain") row.domain = await this.text();
      else if (field === "input" && row.nInputs++ < MAX_VALUES) row.inputs.push(await this.text());
      else if (field === "output" && row.nOutputs++ < MAX_VALUES) row.outputs.push(await this.text());
      else if (field === "attribute") await this.attribute(`${graph ? graph + "." : ""}node[${index}]`);
    });
  }

  /** Lists the tensors and graphs of an attribute. @param {string} node path of the node */
  async attribute(node) {
    let path = node, nGraphs = 0;
    await this.eachInside(async (field) => {
      if (field === "name") path = `${node}.${await this.text()}`;
      else if (field === "t" || field === "tensors") await this.tensor(path);
      else if (field === "sparse_tensor" || field === "sparse_tensors") await this.sparse(path);
      else if (field === "g") await this.graph(path);
      else if (field === "graphs") await this.graph(`${path}[${nGraphs++}]`);
      else this.reader.skipList();
    });
  }

  /** Lists the tensors of a sparse tensor. @param {string} where see TensorRow */
  async sparse(where) {
    await this.eachInside(async (field) => {
      if (field === "values" || field === "indices") await this.tensor(`${where}.${field}`);
      else this.reader.skipList();
    });
  }

  /** Lists a tensor. @param {string} where see TensorRow */
  async tensor(where) {
    /** @type {TensorRow} */
    const row = {where, name: "", type: "", dims: "", bytes: 0, stored: "", problem: ""};
    this.listing.tensors.push(row);
    await this.countRow();
    try {
      const tensor = await this.reader.tensor();
      row.name = await this.text(tensor.name);
      row.type = TYPE_NAMES[tensor.dataType] ?? `type ${tensor.dataType}`;
      row.dims = tensor.dims.join("×") + (tensor.rank > tensor.dims.length ? "×…" : "");
      row.bytes = tensor.bytes;
      row.stored = tensor.isExternal ? (await this.text(tensor.location)) || "external" : "inline";
    } catch (error) {
      // Only this tensor can't be read: its dims or external data are invalid, or a value is too long. The following
      // records can be read.
      if (!(error instanceof RangeError || (error instanceof DamagedError && error.code === TENSOR_CODE))) throw error;
      row.problem = error.message;
    }
  }
}

/**
 * Lists a model. Rows are added to `listing` while it is read.
 * @param {Reader} reader a reader that was just opened
 * @param {() => Promise<void> | void} [onRows] called after every 2,000 rows and at the end; it may wait or throw
 * @param {Listing} [listing]
 * @returns {Promise<Listing>} Rejects with LimitError, DamagedError, RangeError for a value that is too long to be read,
 *   or an error of the source or of `onRows`. Then `listing` contains the rows before the error, of which the last one
 *   may be incomplete.
 */
export async function listModel(reader, onRows = () => {}, listing = newListing()) {
  await new Lister(reader, listing, onRows).model();
  return listing;
}

/** Returns an empty listing. @returns {Listing} */
export function newListing() {
  return {producer: "", irVersion: "", opsets: [], name: "", nodes: [], tensors: []};
}
