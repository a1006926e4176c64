// A virtual list: only the visible rows exist as elements.

import { html } from "./api.js";

const ROW_HEIGHT = 42; // height of a row in pixels, as in page.css
const PAGE_ROWS = 100; // number of rows of one request
const MAX_SCROLL_HEIGHT = 15_000_000; // maximum height in pixels that every browser can scroll
const MAX_CACHED_PAGES = 60;

export class VirtualList {
  /**
   * box: the scrolling element. rows: the element in `box` that contains the visible rows, as high as all rows together, up to
   * MAX_SCROLL_HEIGHT. fetch(start, count): returns {total, rows}. draw(row): returns the children of a row. choose(row): called
   * on selection. showTotal(total): called with the number of rows. reportError(error): called if fetching fails.
   */
  constructor(box, rows, { fetch, draw, choose, showTotal, reportError }) {
    Object.assign(this, { box, rows, fetch, draw, choose, showTotal, reportError });
    this.generation = 0; // incremented by each reset; answers to earlier requests are ignored
    this.total = 0;
    this.activeIndex = -1;
    this.pages = new Map(); // by the index of the page: its rows, or the promise of `request` while the page is being loaded
    box.addEventListener("scroll", () => this.paint());
    box.addEventListener("keydown", (event) => this.handleKey(event));
    new ResizeObserver(() => this.paint()).observe(box);
  }

  /** Reload the rows. index: the index of the row to make active and visible, or -1. */
  async reset(index = -1) {
    this.generation += 1;
    this.pages.clear();
    this.activeIndex = index;
    const generation = this.generation;
    const start = index < 0 ? 0 : Math.floor(index / PAGE_ROWS) * PAGE_ROWS;
    const answer = await this.load(start / PAGE_ROWS);
    if (generation !== this.generation || !answer) return;
    this.total = answer.total;
    this.showTotal(this.total);
    this.rows.style.height = `${Math.min(this.total * ROW_HEIGHT, MAX_SCROLL_HEIGHT)}px`;
    if (index >= 0) this.reveal(index);
    else this.box.scrollTop = 0;
    this.paint();
  }

  /**
   * Load a page by its index, and return the server's answer; null if the page is loaded already, if the list was reset, or if
   * loading fails. If the page is being loaded already, wait for it and return null.
   */
  async load(page) {
    if (this.pages.has(page)) {
      await this.pages.get(page);
      return null;
    }
    const request = this.request(page);
    this.pages.set(page, request);
    return request;
  }

  /** Request a page, and return the server's answer; null if the list was reset, or if the request fails. */
  async request(page) {
    const generation = this.generation;
    try {
      const answer = await this.fetch(page * PAGE_ROWS, PAGE_ROWS);
      if (generation !== this.generation) return null;
      this.pages.set(page, answer.rows);
      // Remove the oldest page, so that scrolling through the list does not cache the whole list.
      if (this.pages.size > MAX_CACHED_PAGES) this.pages.delete(this.pages.keys().next().value);
      return answer;
    } catch (error) {
      if (generation === this.generation) {
        this.pages.delete(page); // it is requested again when it is painted
        this.reportError(error);
      }
      return null;
    }
  }

  /** Return a row; undefined until its page is loaded. */
  row(index) {
    return this.pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS];
  }

  /**
   * Return the index of the first visible row. If the rows together are higher than MAX_SCROLL_HEIGHT, the index is proportional to
   * the scrolled height.
   */
  firstVisible() {
    const totalHeight = this.total * ROW_HEIGHT;
    if (totalHeight <= MAX_SCROLL_HEIGHT) return Math.floor(this.box.scrollTop / ROW_HEIGHT);
    const scrolledShare = this.box.scrollTop / Math.max(MAX_SCROLL_HEIGHT - this.box.clientHeight, 1);
    return Math.floor(scrolledShare * Math.max(this.total - this.box.clientHeight / ROW_HEIGHT, 0));
  }

  /** Draw the visible rows; load pages that are missing. */
  paint() {
    const first = this.firstVisible();
    const last = Math.min(first + Math.ceil(this.box.clientHeight / ROW_HEIGHT) + 2, this.total);
    const isScaled = this.total * ROW_HEIGHT > MAX_SCROLL_HEIGHT;
    const rowElements = [];
    for (let index = first; index < last; index += 1) {
      const row = this.row(index);
      const page = Math.floor(index / PAGE_ROWS);
      if (!row && !this.pages.has(page)) this.load(page).then((answer) => answer && this.paint());
      const element = html(
        "div",
        {
          class: "row",
          role: "option",
          id: `row-${index}`,
          "aria-selected": String(index === this.activeIndex),
          "aria-setsize": this.total,
          "aria-posinset": index + 1,
          onclick: () => this.activate(index),
        },
        row ? this.draw(row) : [html("div", { class: "name" }, "…")],
      );
      element.style.top = `${isScaled ? this.box.scrollTop + (index - first) * ROW_HEIGHT : index * ROW_HEIGHT}px`;
      rowElements.push(element);
    }
    this.rows.replaceChildren(...rowElements);
    if (this.activeIndex >= 0) this.box.setAttribute("aria-activedescendant", `row-${this.activeIndex}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  /** Scroll to a row. If the list is not higher than MAX_SCROLL_HEIGHT, a visible row does not move. */
  reveal(index) {
    if (this.total * ROW_HEIGHT > MAX_SCROLL_HEIGHT) {
      this.box.scrollTop = (index / this.total) * (MAX_SCROLL_HEIGHT - this.box.clientHeight);
      return;
    }
    const top = index * ROW_HEIGHT;
    const maxOffset = this.box.clientHeight - ROW_HEIGHT;
    if (top < this.box.scrollTop || top > this.box.scrollTop + maxOffset) {
      this.box.scrollTop = Math.max(top - maxOffset / 2, 0);
    }
  }

  /** Make a row active, and choose it when it is loaded. */
  async activate(index) {
    this.activeIndex = index;
    this.reveal(index);
    this.paint();
    if (!this.row(index)) await this.load(Math.floor(index / PAGE_ROWS));
    const row = this.row(index);
    if (row && this.activeIndex === index) this.choose(row);
  }

  handleKey(event) {
    if (!this.total || event.ctrlKey || event.metaKey || event.altKey) return;
    const pageStep = Math.max(Math.floor(this.box.clientHeight / ROW_HEIGHT) - 1, 1);
    const targets = {
      ArrowDown: this.activeIndex + 1,
      ArrowUp: this.activeIndex - 1,
      PageDown: this.activeIndex + pageStep,
      PageUp: this.activeIndex - pageStep,
      Home: 0,
      End: this.total - 1,
      Enter: this.activeIndex,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    this.activate(Math.min(Math.max(targets[event.key], 0), this.total - 1));
  }
}
