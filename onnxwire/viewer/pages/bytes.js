// The bytes of a message: its records with their offsets, and pages of hexadecimal digits.

import { ask, countText, html, nounText, sizeText } from "./api.js";

const LINE_BYTES = 16; // number of bytes in a line
const PAGE_BYTES = 32 * LINE_BYTES; // number of bytes in a page
const PAGE_ROWS = 50; // number of records in a page

/** Return a closed card, which loads the bytes when it is opened.

    path: the path of a message or field, "" for the whole file. tensorPath: the path of a tensor; the elements of the tensor
    are then shown at first instead of the bytes of `path`. */
export function bytesCard(path, tensorPath = null) {
  const body = html("div");
  const toggle = html("button", { type: "button", class: "small-button", "aria-expanded": "false", id: "show-bytes" }, "Show");
  toggle.addEventListener("click", async () => {
    const isOpen = toggle.getAttribute("aria-expanded") === "false";
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = isOpen ? "Hide" : "Show";
    body.replaceChildren();
    // The query fails, for example, for an edited field, which has no bytes in the file.
    if (isOpen) await showBytes(body, path, tensorPath).catch((error) => body.replaceChildren(html("p", { class: "note", role: "alert" }, error.message)));
  });
  return html("section", { class: "card", id: "bytes" }, html("div", { class: "bar" }, html("h2", {}, "Bytes in the file"), toggle), body);
}

/** Show the first records of a message, and below them the first bytes. Arguments as for `bytesCard`. */
async function showBytes(body, path, tensorPath) {
  const recordsBox = html("div", { class: "scroll" });
  const hexBox = html("div");
  body.append(recordsBox, hexBox);
  await listRecords(recordsBox, hexBox, path, 0);
  if (tensorPath) await showHex(hexBox, tensorPath, 0, true);
  else await showHex(hexBox, path, 0, false);
}

/** List records from index `start` on. A field's button shows its bytes in `hexBox`; "open" lists the records of a message. */
async function listRecords(recordsBox, hexBox, path, start) {
  const answer = await ask("records", { path, start, count: PAGE_ROWS });
  const rows = answer.rows.map((row) =>
    html("tr", {},
      html("td", { class: "number mono" }, countText(row.offset)),
      html("td", {},
        row.path === null
          ? html("span", { class: "note" }, row.name === null ? `field ${row.number}, unknown` : `${row.name}, retired`)
          : html("button", { type: "button", class: "link", onclick: () => showHex(hexBox, row.path, 0, false) }, row.path.slice(path ? path.length + 1 : 0))),
      html("td", { class: "note" }, row.wire),
      html("td", { class: "number note" }, countText(row.length)),
      html("td", { class: "mono" }, row.text,
        row.is_message ? html("button", { type: "button", class: "link", onclick: () => listRecords(recordsBox, hexBox, row.path, 0) }, "open") : "")));
  recordsBox.replaceChildren(
    html("table", { class: "records" },
      html("tr", {}, html("th", { class: "number" }, "offset"), html("th", {}, "field"), html("th", {}, "stored as"), html("th", { class: "number" }, "bytes"), html("th", {}, "value")),
      ...rows),
    makePager(start, answer.total, PAGE_ROWS, nounText(answer.total, "record"), (newStart) => listRecords(recordsBox, hexBox, path, newStart)),
  );
}

/**
 * Return buttons for the previous and next page, "" for a single page. start: the index of the first shown item; total: the number
 * of all items; step: the number of items in a page; text: `total` with its noun; show(start): shows a page.
 */
function makePager(start, total, step, text, show) {
  if (total <= step) return "";
  return html("div", { class: "group" },
    html("button", { type: "button", class: "small-button", disabled: start <= 0, onclick: () => show(Math.max(start - step, 0)), "aria-label": "Back" }, "←"),
    html("button", { type: "button", class: "small-button", disabled: start + step >= total, onclick: () => show(start + step), "aria-label": "Next" }, "→"),
    html("span", { class: "note" }, `${countText(start)} to ${countText(Math.min(start + step, total))} of ${text}`));
}

/**
 * Show a page of bytes in hexadecimal and as text. path: as for `bytesCard`. start: the offset of the page from the first byte of
 * the message, field or elements. isPayload: show the elements of the tensor at the path.
 */
async function showHex(hexBox, path, start, isPayload) {
  const answer = await ask("raw", { path, start, count: PAGE_BYTES, payload: isPayload || null });
  const digits = answer.bytes;
  const lines = [];
  const width = String(answer.offset + PAGE_BYTES).length;
  for (let digitIndex = 0; digitIndex < digits.length; digitIndex += 2 * LINE_BYTES) {
    const bytes = digits.slice(digitIndex, digitIndex + 2 * LINE_BYTES).match(/../g);
    const text = bytes.map((byte) => {
      const code = parseInt(byte, 16);
      const isPrintable = code > 31 && code < 127; // in ASCII
      return isPrintable ? String.fromCharCode(code) : "·";
    }).join("");
    const hex = bytes.map((byte, i) => (i === LINE_BYTES / 2 ? ` ${byte}` : byte)).join(" ").padEnd(3 * LINE_BYTES);
    lines.push(html("span", { class: "offset" }, String(answer.offset + digitIndex / 2).padStart(width)), `  ${hex}  `, html("span", { class: "text" }, text), "\n");
  }
  const offsetInput = html("input", { type: "number", min: 0, max: Math.max(answer.length - 1, 0), value: start, "aria-label": "First byte" });
  offsetInput.addEventListener("change", () => showHex(hexBox, path, Math.max(Number(offsetInput.value) || 0, 0), isPayload));
  hexBox.replaceChildren(
    html("p", { class: "note" }, `${isPayload ? "elements of " : ""}${path || "the file"}: ${sizeText(answer.length)} from byte ${countText(answer.offset - answer.start)} of ${answer.file}`),
    html("pre", { class: "hex mono", tabindex: 0, "aria-label": "Offsets, bytes and text" }, ...lines),
    html("div", { class: "bar" }, makePager(start, answer.length, PAGE_BYTES, nounText(answer.length, "byte"), (newStart) => showHex(hexBox, path, newStart, isPayload)),
      answer.length > PAGE_BYTES ? html("label", { class: "group" }, "from ", offsetInput) : ""),
  );
}
