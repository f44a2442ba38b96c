// A long text: it is laid out in blocks of lines, and only blocks near the place that is seen have content.
import { el, occurrences, shown } from "./page.js";

const BLOCK = 100;
const LINE_HEIGHT = 20;
/** Most lines that are shown. */
const MAX_LINES = 1_000_000;
/** Longest line that is shown whole. */
const MAX_LINE = 20_000;
/** Most occurrences that a search counts. */
const MAX_FOUND = 10_000;

/** A text that grows by pieces and is searched. `scroller` is the element that scrolls it. */
export class TextView {
  #lines = [];
  #isOpen = false;
  #blocks = [];
  #observer;
  #pattern = "";
  #found = [];
  #current = -1;
  element = el("div", { class: "text-view" });

  constructor(scroller) {
    this.#observer = new IntersectionObserver((entries) => this.#see(entries), {
      root: scroller,
      rootMargin: "1200px 0px",
    });
  }

  /** How many lines there are. */
  get lineCount() {
    // A line break at the end of a text begins no line.
    return this.#lines.length - (this.#lines.at(-1) === "" ? 1 : 0);
  }

  /** How many occurrences were found, and which one is shown, from 1. */
  get found() {
    return { count: this.#found.length, isCut: this.#found.length >= MAX_FOUND, at: this.#current + 1 };
  }

  append(text) {
    if (text === "") return;
    const parts = text.split("\n");
    const firstChanged = this.#isOpen ? this.#lines.length - 1 : this.#lines.length;
    if (this.#isOpen) this.#lines[this.#lines.length - 1] += parts.shift();
    for (const part of parts) this.#lines.push(part);
    this.#isOpen = true;
    this.#lines.length = Math.min(this.#lines.length, MAX_LINES);
    this.element.style.setProperty("--numbers", `${Math.max(3, String(this.#lines.length).length)}ch`);
    for (let block = Math.floor(firstChanged / BLOCK); block * BLOCK < this.#lines.length; block++) this.#renew(block);
    if (this.#pattern !== "") this.search(this.#pattern, { isKept: true });
  }

  setWrap(isWrapped) {
    this.element.toggleAttribute("data-wrap", isWrapped);
    for (const block of this.#blocks)
      if (block.childElementCount === 0) block.style.height = `${this.#linesOf(block).length * LINE_HEIGHT}px`;
  }

  /** Finds a text, and shows the first occurrence at or after the place that is seen. */
  search(text, { isKept = false } = {}) {
    this.#pattern = text;
    this.#found = [];
    if (text !== "") {
      for (let line = 0; line < this.#lines.length && this.#found.length < MAX_FOUND; line++) {
        if (this.#lines[line] === "") continue;
        for (const [start] of occurrences(this.#lines[line], text)) this.#found.push({ line, start });
      }
    }
    if (!isKept) this.#current = this.#found.length > 0 ? 0 : -1;
    this.#redraw();
    if (!isKept) this.#showCurrent();
  }

  /** Goes to the next occurrence, or with -1 to the one before. */
  next(step = 1) {
    if (this.#found.length === 0) return;
    this.#current = (this.#current + step + this.#found.length) % this.#found.length;
    this.#redraw();
    this.#showCurrent();
  }

  /** Shows a line, from 1. */
  goTo(line) {
    const block = this.#blocks[Math.floor((line - 1) / BLOCK)];
    if (!block) return;
    this.#fill(block);
    block.children[(line - 1) % BLOCK]?.scrollIntoView({ block: "center" });
  }

  close() {
    this.#observer.disconnect();
  }

  #renew(index) {
    let block = this.#blocks[index];
    if (!block) {
      block = el("div", { class: "block" });
      block.dataset.block = index;
      this.#blocks[index] = block;
      this.element.append(block);
      this.#observer.observe(block);
    }
    if (block.childElementCount > 0) this.#fill(block);
    else block.style.height = `${this.#linesOf(block).length * LINE_HEIGHT}px`;
  }

  #linesOf(block) {
    const first = Number(block.dataset.block) * BLOCK;
    const lines = this.#lines.slice(first, first + BLOCK);
    const isLast = first + BLOCK >= this.#lines.length;
    // The empty text after the last line break.
    if (isLast && this.#lines.length > 1 && lines.at(-1) === "") lines.pop();
    return lines;
  }

  #see(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) {
        if (target.childElementCount === 0) this.#fill(target);
      } else if (target.childElementCount > 0) {
        // Keeps its height, so that what is seen does not move.
        target.style.height = `${target.getBoundingClientRect().height}px`;
        target.replaceChildren();
      }
    }
  }

  #fill(block) {
    const first = Number(block.dataset.block) * BLOCK;
    block.style.height = "";
    const lines = this.#linesOf(block).map((text, offset) => {
      const line = text.replace(/\r$/, "");
      const whole = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
      const content = el("span", {}, shown(whole, this.#pattern));
      const element = el("div", { class: "line" }, content);
      element.dataset.line = first + offset + 1;
      return element;
    });
    block.replaceChildren(...lines);
    const current = this.#found[this.#current];
    if (current && current.line >= first && current.line < first + lines.length) {
      const nth = this.#found.filter((found) => found.line === current.line && found.start < current.start).length;
      lines[current.line - first].querySelectorAll("mark")[nth]?.setAttribute("aria-current", "true");
    }
  }

  #redraw() {
    for (const block of this.#blocks) if (block.childElementCount > 0) this.#fill(block);
  }

  #showCurrent() {
    const current = this.#found[this.#current];
    if (!current) return;
    this.goTo(current.line + 1);
    this.element.querySelector("mark[aria-current]")?.scrollIntoView({ block: "center", inline: "nearest" });
  }
}
