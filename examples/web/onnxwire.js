/**
 * Reads ONNX models of any size in a browser with onnxwire.h, which is compiled to WebAssembly (`reader.c`).
 *
 * A source reads ranges of bytes asynchronously. The reader loads blocks of 64 KiB, and keeps the most recent ones.
 * `next` requests the blocks with the tags and lengths that it passes, and further blocks if the file is read without
 * gaps. Long values such as weights are skipped by their length, unless the caller requests them.
 *
 * @example
 * const reader = await Reader.open(new FileSource(file), await loadModule());
 * while (await reader.next()) {
 *   if (reader.field.name === "producer_name") console.log(await reader.text());
 * }
 */

/** Bytes per block. */
export const BLOCK_BYTES = 1 << 16;
/** The maximum number of cached blocks. The most recently loaded blocks are cached. */
const MAX_BLOCKS = 64;
/** The maximum number of blocks that are loaded at a time when a file is read without gaps. */
const MAX_BLOCKS_AHEAD = 16;
/** The maximum number of bytes of a text that are read. */
export const MAX_TEXT_BYTES = 4096;

const END = 0, VALUE = 1, NEEDED = 2; // results of `step`, `enter` and `read_tensor` in reader.c; a greater result reports damage
const FLOAT_TYPES = new Set([1, 2]); // the field types double and float
const SPAN_TYPES = new Set([9, 11, 12]); // the field types string, message and bytes

/** Descriptions of the values of ow_code. */
const CODE_TEXTS = [
  "no error", "a damaged tag", "field number 0", "a wire type that does not exist", "a damaged number",
  "a damaged length", "a value that is longer than its message", "a group that is not closed, or an end without a group",
  "more than 100 messages inside each other", "a packed list that ends inside a number", "a failed read",
  "a range outside of the file", "dims or external data that no program can use",
];

const UTF8 = new TextDecoder();

/** The bytes at an offset cannot be read as a model. */
export class DamagedError extends Error {
  /** @param {number} code an ow_code of onnxwire.h @param {number} offset */
  constructor(code, offset) {
    super(`${CODE_TEXTS[code] ?? `error ${code}`} at byte ${offset.toLocaleString("en")}`);
    this.name = "DamagedError";
    this.code = code;
    this.offset = offset;
  }
}

/**
 * @typedef {object} Source Bytes of a file or server.
 * @property {number} size in bytes
 * @property {(offset: number, size: number) => Promise<Uint8Array>} read Reads exactly `size` bytes, or rejects.
 *
 * @typedef {object} Field
 * @property {string} name as in onnx.proto, such as "op_type"
 * @property {number} number
 * @property {number} type a value of FieldDescriptorProto.Type
 * @property {boolean} isRepeated
 * @property {boolean} isMessage
 *
 * @typedef {object} Span Offsets in the source.
 * @property {number} start
 * @property {number} end after the last byte
 *
 * @typedef {object} Tensor
 * @property {Span} name
 * @property {number} dataType a value of TensorProto.DataType
 * @property {bigint[]} dims the first dims, at most 64
 * @property {number} rank the number of all dims
 * @property {number} bytes of the elements, by type and dims
 * @property {boolean} isExternal
 * @property {Span} location of external data; empty otherwise
 * @property {bigint} offset of external data
 * @property {bigint | null} length of external data; null if the data extends to the end of its file
 * @property {Span} raw the elements in `raw_data`; empty if they are elsewhere
 */

/** A file on this computer. */
export class FileSource {
  /** @param {Blob} file */
  constructor(file) {
    this.file = file;
    this.size = file.size;
  }

  /** @param {number} offset @param {number} size @returns {Promise<Uint8Array>} */
  async read(offset, size) {
    return new Uint8Array(await this.file.slice(offset, offset + size).arrayBuffer());
  }
}

/** A file on a server that supports requests for ranges. Requests contain no cookies, credentials or referrer. */
export class AddressSource {
  /**
   * Asks the server for the size of the file.
   *
   * A browser does not show the target of a redirect before it has sent a request there. Therefore `confirmRedirect` is
   * called at a redirect. If it resolves to true, the redirect is followed, and later requests go to the target.
   * @param {string} address
   * @param {{signal?: AbortSignal, confirmRedirect?: () => Promise<boolean>}} [options]
   * @returns {Promise<AddressSource>}
   */
  static async open(address, {signal, confirmRedirect} = {}) {
    const source = new AddressSource(address, signal);
    let response = await source.request(0, 1);
    if (response.type === "opaqueredirect") {
      if (!confirmRedirect || !(await confirmRedirect())) throw new Error("the server redirects to another address");
      response = await source.request(0, 1, "follow");
      source.address = response.url;
    }
    source.check(response);
    await response.body?.cancel();
    source.version = source.versionOf(response);
    source.size = Number(/\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "")?.[1] ?? NaN);
    if (Number.isNaN(source.size)) {
      // Servers of other hosts may hide Content-Range from pages, but not Content-Length.
      const head = await fetch(source.address, {...source.options("error"), method: "HEAD"});
      source.size = Number(head.headers.get("Content-Length") ?? NaN);
    }
    if (!Number.isSafeInteger(source.size)) throw new Error("the server does not report the size of the file");
    return source;
  }

  /** @param {string} address @param {AbortSignal} [signal] */
  constructor(address, signal) {
    this.address = address;
    this.signal = signal;
    this.size = NaN;
    this.version = "";
  }

  /** Returns the options of `fetch`. @param {RequestRedirect} redirect @returns {RequestInit} */
  options(redirect) {
    return {redirect, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer", signal: this.signal};
  }

  /** Requests the bytes from `start` up to `end`. @param {number} start @param {number} end @param {RequestRedirect} [redirect] */
  async request(start, end, redirect = "manual") {
    try {
      return await fetch(this.address, {...this.options(redirect), headers: {Range: `bytes=${start}-${end - 1}`}});
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new Error("the server cannot be reached, or does not allow other pages to read its files (CORS)");
    }
  }

  /** Throws an Error unless the response contains a range. @param {Response} response */
  check(response) {
    if (response.status === 206) return;
    response.body?.cancel();
    if (response.type === "opaqueredirect") throw new Error("the server redirects to another address");
    if (response.ok) throw new Error("the server sends only whole files, not ranges");
    throw new Error(`the server answered with status ${response.status}`);
  }

  /** Returns the ETag or modification time, by which a change of the file is detected, or "" if there is none. @param {Response} response @returns {string} */
  versionOf(response) {
    return response.headers.get("ETag") ?? response.headers.get("Last-Modified") ?? "";
  }

  /** @param {number} offset @param {number} size @returns {Promise<Uint8Array>} */
  async read(offset, size) {
    const response = await this.request(offset, offset + size);
    this.check(response);
    if (this.versionOf(response) !== this.version) {
      response.body?.cancel();
      throw new Error("the file on the server was changed; open it again");
    }
    if (Number(/^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "")?.[1] ?? offset) !== offset)
      throw new Error("the server sent another range than the requested one");
    const data = new Uint8Array(size);
    let nReceived = 0;
    // The body is read in parts, because a server may send more than the requested range.
    const body = response.body?.getReader();
    for (let part = await body?.read(); part && !part.done; part = await body?.read()) {
      if (nReceived + part.value.length > size) {
        body?.cancel();
        throw new Error("the server sent more bytes than requested");
      }
      data.set(part.value, nReceived);
      nReceived += part.value.length;
    }
    if (nReceived !== size) throw new Error("the server sent fewer bytes than requested");
    return data;
  }
}

/**
 * Compiles the module.
 * @param {string | URL} [address]
 * @returns {Promise<WebAssembly.Module>}
 */
export async function loadModule(address = new URL("onnxwire.wasm", import.meta.url)) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`onnxwire.wasm: status ${response.status}; \`make web\` builds it`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/**
 * The values of a model, message by message, in the order of the bytes.
 *
 * `next` moves to the next value of the current message. If a value is a message, `enter` makes it the current message,
 * and `leave` continues after it. Values are returned as they are stored: if a singular field occurs several times, the
 * caller must use the last value, or merge all of them if it is a message.
 *
 * For speed, use `while (reader.step() || (await reader.settle()))`, which waits only for bytes.
 */
export class Reader {
  /** The number of bytes that were read. */
  bytesRead = 0;
  /** @type {Map<number, Uint8Array>} */
  #blocks = new Map();
  /** Blocks that were missing in the current call. @type {Set<number>} */
  #needed = new Set();
  /** @type {Map<number, Field>} */
  #fields = new Map();
  #nextBlock = 0; // the block after those that were loaded last
  #nBlocksAhead = 1; // the number of blocks that the last request loaded
  #state = END; // the result of the last step
  #text = new Uint8Array(MAX_TEXT_BYTES);

  /**
   * @param {Source} source
   * @param {WebAssembly.Module} module of `loadModule`
   * @returns {Promise<Reader>}
   */
  static async open(source, module) {
    const reader = new Reader(source);
    const instance = await WebAssembly.instantiate(module, {source: {read_bytes: reader.#copy.bind(reader)}});
    reader.wasm = /** @type {any} */ (instance.exports);
    reader.wasm.open_source(source.size);
    reader.memory = new Uint8Array(reader.wasm.memory.buffer);
    // The struct `value` of reader.c, whose eight members are doubles except the fifth, an integer.
    reader.doubles = new Float64Array(reader.wasm.memory.buffer, reader.wasm.value_address(), 8);
    reader.integers = new BigInt64Array(reader.wasm.memory.buffer, reader.wasm.value_address(), 8);
    return reader;
  }

  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    /** @type {any} */ this.wasm = null;
    /** @type {Uint8Array} */ this.memory = new Uint8Array();
    /** @type {Float64Array} */ this.doubles = new Float64Array();
    /** @type {BigInt64Array} */ this.integers = new BigInt64Array();
  }

  /**
   * Moves to the next value of the current message. Returns false at the end of the message, if bytes must be loaded first, and
   * for damage. `settle` distinguishes these cases.
   * @returns {boolean}
   */
  step() {
    this.#state = this.wasm.step();
    return this.#state === VALUE;
  }

  /**
   * Completes a `step` that returned false: loads the bytes that it needs. Resolves to false at the end of the message.
   * Rejects with DamagedError, the error of the source, Error if the source returns fewer bytes than requested, or
   * RangeError for a value that is too long to be read.
   * @returns {Promise<boolean>}
   */
  async settle() {
    while (this.#state === NEEDED) {
      await this.#load();
      this.#state = this.wasm.step();
    }
    this.#needed.clear();
    if (this.#state > NEEDED) throw this.#damage();
    return this.#state === VALUE;
  }

  /** Moves to the next value of the current message. @returns {Promise<boolean>} false at its end */
  async next() {
    return this.step() || this.settle();
  }

  /** Skips the remaining numbers of the packed list that contains the current value; does nothing for other values. */
  skipList() {
    this.wasm.skip_list();
  }

  /** Makes the current value, which is a message, the current message. */
  enter() {
    if (this.wasm.enter() !== VALUE) throw this.#damage();
  }

  /** Continues after the message that was entered last. */
  leave() {
    this.wasm.leave();
  }

  /** The field of the current value. @returns {Field} */
  get field() {
    const [table, row] = this.doubles;
    const key = table * 256 + row; // unique, since a table has fewer than 256 rows
    let field = this.#fields.get(key);
    if (!field) {
      const address = this.wasm.field_of(table, row);
      const [name, number, type, isRepeated] = new Uint32Array(this.wasm.memory.buffer, address, 4);
      const text = UTF8.decode(this.memory.subarray(name, this.memory.indexOf(0, name)));
      field = {name: text, number, type, isRepeated: isRepeated === 1, isMessage: type === 11};
      this.#fields.set(key, field);
    }
    return field;
  }

  /** The position of the current value, if it is a string, bytes or a message. @returns {Span} */
  get span() {
    return {start: this.doubles[2], end: this.doubles[3]};
  }

  /** The current value, if it is a number: a bigint for integers, bools and enums. @returns {number | bigint} */
  get number() {
    const {type} = this.field;
    if (SPAN_TYPES.has(type)) throw new TypeError(`${this.field.name} is no number`);
    return FLOAT_TYPES.has(type) ? this.doubles[5] : this.integers[4];
  }

  /**
   * Reads a text: the current value, or a span. Bytes after the first 4,096 are left out, and "…" is added.
   * @param {Span} [span]
   * @returns {Promise<string>}
   */
  async text(span = this.span) {
    const size = Math.min(span.end - span.start, MAX_TEXT_BYTES);
    const text = UTF8.decode(await this.bytes(span.start, size));
    return span.end - span.start > size ? text + "…" : text;
  }

  /**
   * Returns the text that `text` would read, or null if bytes must be loaded or the text has more than 4,096 bytes.
   * @param {Span} [span]
   * @returns {string | null}
   */
  peek(span = this.span) {
    const size = span.end - span.start;
    const data = size <= MAX_TEXT_BYTES ? this.#text.subarray(0, size) : null;
    const isLoaded = data !== null && this.#fill(data, span.start);
    this.#needed.clear();
    return isLoaded ? UTF8.decode(data) : null;
  }

  /**
   * Reads a range of the source.
   * @param {number} offset @param {number} size
   * @returns {Promise<Uint8Array>}
   */
  async bytes(offset, size) {
    const data = new Uint8Array(size);
    if (!(offset >= 0 && offset + size <= this.source.size)) throw new RangeError("the range is outside of the source");
    for (let nFilled = 0; nFilled < size; ) {
      while (!this.#fill(data.subarray(nFilled, nFilled + BLOCK_BYTES), offset + nFilled)) await this.#load();
      this.#needed.clear();
      nFilled += BLOCK_BYTES;
    }
    return data;
  }

  /** Reads the current value, which is a TensorProto. @returns {Promise<Tensor>} */
  async tensor() {
    let state = this.wasm.read_tensor();
    for (; state === NEEDED; state = this.wasm.read_tensor()) await this.#load();
    this.#needed.clear();
    if (state !== VALUE) throw this.#damage();
    const address = this.wasm.tensor_address();
    // The struct `tensor` of reader.c: 11 doubles, followed by offset, length and 64 dims as 64-bit integers.
    const doubles = new Float64Array(this.wasm.memory.buffer, address, 11);
    const [nameStart, nameEnd, dataType, rank, bytes, isExternal, hasLength, rawStart, rawEnd, locationStart, locationEnd] = doubles;
    const [offset, length, ...dims] = new BigInt64Array(this.wasm.memory.buffer, address + 11 * 8, 2 + 64);
    return {
      name: {start: nameStart, end: nameEnd}, dataType, rank, dims: dims.slice(0, rank), bytes, isExternal: isExternal === 1,
      location: {start: locationStart, end: locationEnd}, offset, length: hasLength ? length : null, raw: {start: rawStart, end: rawEnd},
    };
  }

  #damage() {
    return new DamagedError(this.doubles[6], this.doubles[7]);
  }

  /** Copies a range for the module and returns 0, or records the blocks that must be loaded and returns 1. */
  #copy(/** @type {number} */ offset, /** @type {number} */ target, /** @type {number} */ size) {
    return this.#fill(this.memory.subarray(target, target + size), offset) ? 0 : 1;
  }

  /** Fills an array from the cached blocks. Returns false if one is missing, and adds the missing blocks to `#needed`. */
  #fill(/** @type {Uint8Array} */ target, /** @type {number} */ offset) {
    const first = Math.floor(offset / BLOCK_BYTES), last = Math.floor((offset + target.length - 1) / BLOCK_BYTES);
    let isComplete = true;
    for (let index = first; index <= last; index++) {
      const block = this.#blocks.get(index);
      if (!block) {
        this.#needed.add(index);
        isComplete = false;
        continue;
      }
      const start = index * BLOCK_BYTES - offset; // of the block, from the start of the target
      const part = block.subarray(Math.max(0, -start), Math.min(block.length, target.length - start));
      if (isComplete) target.set(part, Math.max(0, start));
    }
    return isComplete;
  }

  /** Loads the missing blocks. If the file is read without gaps, more blocks are loaded at a time. */
  async #load() {
    const missing = [...this.#needed].filter((index) => !this.#blocks.has(index));
    if (this.#needed.size > MAX_BLOCKS / 2) {
      this.#needed.clear();
      throw new RangeError("a value is too long to be read in a browser");
    }
    for (const index of missing) {
      if (this.#blocks.has(index)) continue; // loaded in the meantime, together with an earlier block
      this.#nBlocksAhead = index === this.#nextBlock ? Math.min(2 * this.#nBlocksAhead, MAX_BLOCKS_AHEAD) : 1;
      const start = index * BLOCK_BYTES;
      const end = Math.min(start + this.#nBlocksAhead * BLOCK_BYTES, this.source.size);
      const data = await this.source.read(start, end - start);
      if (data.length !== end - start) throw new Error("the file is shorter than before; open it again");
      this.bytesRead += data.length;
      for (let dataStart = 0; dataStart < data.length; dataStart += BLOCK_BYTES)
        this.#blocks.set(index + dataStart / BLOCK_BYTES, data.subarray(dataStart, dataStart + BLOCK_BYTES));
      this.#nextBlock = index + this.#nBlocksAhead;
    }
    for (const index of this.#blocks.keys()) {
      if (this.#blocks.size <= MAX_BLOCKS) break;
      if (!this.#needed.has(index)) this.#blocks.delete(index); // the oldest
    }
  }
}
