// A list of any length, of which only the rows on the screen exist.

import { html } from "./api.js";

const HEIGHT = 42; // of a row, as in page.css
const PAGE = 100; // rows that are asked for at once
const TALLEST = 15_000_000; // pixels that every browser can scroll

export class VirtualList {
  /**
   * box, rows: the scrolling element, and the one in it that is as high as all rows.
   * fetch(start, count): gives {total, rows}. draw(row): the children of a row. choose(row): it was chosen.
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

  /** Begin anew, with other rows; the place is that of the active one, or -1. */
  async reset(place = -1) {
    this.generation += 1;
    this.pages.clear();
    this.active = place;
    const generation = this.generation;
    const start = place < 0 ? 0 : Math.floor(place / PAGE) * PAGE;
    const answer = await this.load(start / PAGE);
    if (generation !== this.generation || !answer) return;
    this.total = answer.total;
    this.counted(this.total);
    this.rows.style.height = `${Math.min(this.total * HEIGHT, TALLEST)}px`;
    if (place >= 0) this.reveal(place);
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
      // Far pages are forgotten, so that scrolling through everything does not keep everything.
      if (this.pages.size > 60) this.pages.delete(this.pages.keys().next().value);
      return answer;
    } catch (error) {
      if (generation === this.generation) this.trouble(error);
      return null;
    }
  }

  row(place) {
    return this.pages.get(Math.floor(place / PAGE))?.[place % PAGE];
  }

  /** The first row on the screen; with more rows than pixels can be scrolled, by proportion. */
  first() {
    const span = this.total * HEIGHT;
    if (span <= TALLEST) return Math.floor(this.box.scrollTop / HEIGHT);
    const share = this.box.scrollTop / Math.max(TALLEST - this.box.clientHeight, 1);
    return Math.floor(share * Math.max(this.total - this.box.clientHeight / HEIGHT, 0));
  }

  paint() {
    const first = this.first();
    const last = Math.min(first + Math.ceil(this.box.clientHeight / HEIGHT) + 2, this.total);
    const isScaled = this.total * HEIGHT > TALLEST;
    const shown = [];
    for (let place = first; place < last; place += 1) {
      const row = this.row(place);
      const page = Math.floor(place / PAGE);
      if (!row && !this.pages.has(page)) this.load(page).then((answer) => answer && this.paint());
      const element = html(
        "div",
        {
          class: "row",
          role: "option",
          id: `row-${place}`,
          "aria-selected": String(place === this.active),
          "aria-setsize": this.total,
          "aria-posinset": place + 1,
          onclick: () => this.go(place),
        },
        row ? this.draw(row) : [html("div", { class: "name" }, "…")],
      );
      element.style.top = `${isScaled ? this.box.scrollTop + (place - first) * HEIGHT : place * HEIGHT}px`;
      shown.push(element);
    }
    this.rows.replaceChildren(...shown);
    if (this.active >= 0) this.box.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  reveal(place) {
    if (this.total * HEIGHT > TALLEST) {
      this.box.scrollTop = (place / this.total) * (TALLEST - this.box.clientHeight);
      return;
    }
    const top = place * HEIGHT;
    const room = this.box.clientHeight - HEIGHT;
    if (top < this.box.scrollTop || top > this.box.scrollTop + room) {
      this.box.scrollTop = Math.max(top - room / 2, 0);
    }
  }

  /** Make a row the active one, and choose it when it is there. */
  async go(place) {
    this.active = place;
    this.reveal(place);
    this.paint();
    if (!this.row(place)) await this.load(Math.floor(place / PAGE));
    const row = this.row(place);
    if (row && this.active === place) this.choose(row);
  }

  key(event) {
    if (!this.total || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.max(Math.floor(this.box.clientHeight / HEIGHT) - 1, 1);
    const places = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + step,
      PageUp: this.active - step,
      Home: 0,
      End: this.total - 1,
      Enter: this.active,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.go(Math.min(Math.max(places[event.key], 0), this.total - 1));
  }
}
