// A virtual list: only the visible rows exist as elements.

import { html } from "./api.js";

const HEIGHT = 42; // height of a row in pixels, as in page.css
const PAGE = 100; // number of rows of one request
const MAX_HEIGHT = 15_000_000; // maximum height in pixels that every browser can scroll

export class VirtualList {
  /**
   * box, rows: the scrolling element, and the element in it that is as high as all rows together.
   * fetch(start, count): returns {total, rows}. draw(row): returns the children of a row. choose(row): called on
   * selection.
   */
  constructor(box, rows, { fetch, draw, choose, counted, trouble }) {
    Object.assign(this, { box, rows, fetch, draw, choose, counted, trouble });
    this.generation = 0;
    this.total = 0;
    this.active = -1;
    this.pages = new Map();
    box.addEventListener("scroll", () => this.paint());
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(box);
  }

  /** Reload the rows. index: the index of the active row, or -1. */
  async reset(index = -1) {
    this.generation += 1;
    this.pages.clear();
    this.active = index;
    const generation = this.generation;
    const start = index < 0 ? 0 : Math.floor(index / PAGE) * PAGE;
    const answer = await this.load(start / PAGE);
    if (generation !== this.generation || !answer) return;
    this.total = answer.total;
    this.counted(this.total);
    this.rows.style.height = `${Math.min(this.total * HEIGHT, MAX_HEIGHT)}px`;
    if (index >= 0) this.reveal(index);
    else this.box.scrollTop = 0;
    this.paint();
  }

  async load(page) {
    if (this.pages.has(page)) return null;
    this.pages.set(page, null);
    const generation = this.generation;
    try {
      const answer = await this.fetch(page * PAGE, PAGE);
      if (generation !== this.generation) return null;
      this.pages.set(page, answer.rows);
      // Drop the oldest page, so that scrolling through the list does not cache all of it.
      if (this.pages.size > 60) this.pages.delete(this.pages.keys().next().value);
      return answer;
    } catch (error) {
      if (generation === this.generation) this.trouble(error);
      return null;
    }
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** The first visible row; proportional to the scroll position if there are more rows than scrollable pixels. */
  first() {
    const span = this.total * HEIGHT;
    if (span <= MAX_HEIGHT) return Math.floor(this.box.scrollTop / HEIGHT);
    const share = this.box.scrollTop / Math.max(MAX_HEIGHT - this.box.clientHeight, 1);
    return Math.floor(share * Math.max(this.total - this.box.clientHeight / HEIGHT, 0));
  }

  paint() {
    const first = this.first();
    const last = Math.min(first + Math.ceil(this.box.clientHeight / HEIGHT) + 2, this.total);
    const isScaled = this.total * HEIGHT > MAX_HEIGHT;
    const shown = [];
    for (let index = first; index < last; index += 1) {
      const row = this.row(index);
      const page = Math.floor(index / PAGE);
      if (!row && !this.pages.has(page)) this.load(page).then((answer) => answer && this.paint());
      const element = html(
        "div",
        {
          class: "row",
          role: "option",
          id: `row-${index}`,
          "aria-selected": String(index === this.active),
          "aria-setsize": this.total,
          "aria-posinset": index + 1,
          onclick: () => this.go(index),
        },
        row ? this.draw(row) : [html("div", { class: "name" }, "…")],
      );
      element.style.top = `${isScaled ? this.box.scrollTop + (index - first) * HEIGHT : index * HEIGHT}px`;
      shown.push(element);
    }
    this.rows.replaceChildren(...shown);
    if (this.active >= 0) this.box.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  reveal(index) {
    if (this.total * HEIGHT > MAX_HEIGHT) {
      this.box.scrollTop = (index / this.total) * (MAX_HEIGHT - this.box.clientHeight);
      return;
    }
    const top = index * HEIGHT;
    const room = this.box.clientHeight - HEIGHT;
    if (top < this.box.scrollTop || top > this.box.scrollTop + room) {
      this.box.scrollTop = Math.max(top - room / 2, 0);
    }
  }

  /** Make a row the active one, and choose it when it is loaded. */
  async go(index) {
    this.active = index;
    this.reveal(index);
    this.paint();
    if (!this.row(index)) await this.load(Math.floor(index / PAGE));
    const row = this.row(index);
    if (row && this.active === index) this.choose(row);
  }

  key(event) {
    if (!this.total || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.max(Math.floor(this.box.clientHeight / HEIGHT) - 1, 1);
    const targets = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + step,
      PageUp: this.active - step,
      Home: 0,
      End: this.total - 1,
      Enter: this.active,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    this.go(Math.min(Math.max(targets[event.key], 0), this.total - 1));
  }
}
