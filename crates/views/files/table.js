// A table of many rows: only the rows that are seen are in the document.
import { count, el, shown } from "./page.js";
import { cellText } from "./json.js";

const ROW_HEIGHT = 28;
/** Browsers lay out about 33 million pixels; so many rows are shown at most. */
const MAX_ROWS = 1_000_000;
/** Longest text in a cell; the whole value is shown below the table. */
const MAX_CELL = 300;
/** Rows of which the widths of columns are taken. */
const SAMPLE = 200;

/**
 * The index of each row in the order of a column; the order is stable. Numbers come before texts,
 * and empty cells last.
 */
export function sortedRows(rows, indexes, column, isDescending) {
  const keys = new Map(indexes.map((index) => [index, sortKey(rows[index][column])]));
  const direction = isDescending ? -1 : 1;
  return [...indexes].sort((left, right) => {
    const [a, b] = [keys.get(left), keys.get(right)];
    if (a.rank === 2 || b.rank === 2) return a.rank - b.rank;
    if (a.rank !== b.rank) return (a.rank - b.rank) * direction;
    return (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) * direction;
  });
}

function sortKey(value) {
  const text = cellText(value).trim();
  if (text === "" || value === null) return { rank: 2, value: "" };
  return isNumeric(text) ? { rank: 0, value: Number(text) } : { rank: 1, value: text.toLowerCase() };
}

function isNumeric(text) {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
}

/**
 * A table that can be filtered, sorted and walked through by keys. `onCell` gets the place and
 * whole text of the active cell.
 * `rows` may grow; `update` shows it.
 */
export class Table {
  #columns;
  #rows;
  #shown = [];
  #filter = "";
  #sort;
  #active = { row: -1, column: 0 };
  #onCell;
  #header;
  #sized;
  #numeric = [];
  element;

  constructor({ columns, rows, label, onCell }) {
    this.#columns = columns;
    this.#rows = rows;
    this.#onCell = onCell;
    this.#header = el("div", { role: "row", class: "header", "aria-rowindex": 1 });
    this.#sized = el("div", { class: "sized", role: "rowgroup" });
    this.element = el(
      "div",
      { class: "table-view", role: "grid", tabindex: "0", "aria-label": label, "aria-colcount": columns.length + 1 },
      el("div", { role: "rowgroup", class: "header-group" }, this.#header),
      this.#sized,
    );
    this.element.addEventListener("scroll", () => this.#draw());
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener(
      "focus",
      () => this.#active.row < 0 && this.#shown.length > 0 && this.#activate(0, 0, false),
    );
    new ResizeObserver(() => this.#draw()).observe(this.element);
    this.#measure();
    this.update();
  }

  /** The number of shown rows, and of all rows. */
  get counts() {
    return { shown: this.#shown.length, all: this.#rows.length };
  }

  /** Shows rows that have come, or another filter. */
  update(filter = this.#filter) {
    this.#filter = filter;
    let indexes = Array.from({ length: Math.min(MAX_ROWS, this.#rows.length) }, (_, index) => index);
    const wanted = filter.trim().toLowerCase();
    if (wanted !== "")
      indexes = indexes.filter((index) =>
        this.#rows[index].some((value) => cellText(value).toLowerCase().includes(wanted)),
      );
    if (this.#sort) indexes = sortedRows(this.#rows, indexes, this.#sort.column, this.#sort.isDescending);
    this.#shown = indexes;
    this.#active.row = Math.min(this.#active.row, indexes.length - 1);
    this.element.setAttribute("aria-rowcount", String(indexes.length + 1));
    this.#sized.style.height = `${indexes.length * ROW_HEIGHT}px`;
    this.#drawHeader();
    this.#draw();
  }

  #measure() {
    const sample = this.#rows.slice(0, SAMPLE);
    const widths = this.#columns.map((name, column) => {
      const texts = sample.map((row) => cellText(row[column]));
      this.#numeric[column] =
        texts.some((text) => text !== "") && texts.every((text) => text === "" || isNumeric(text.trim()));
      const longest = texts.reduce((most, text) => Math.max(most, text.length), name.length + 2);
      return `${Math.round(Math.min(320, Math.max(56, longest * 7.4 + 18)))}px`;
    });
    const first = Math.max(44, String(this.#rows.length).length * 8 + 18);
    this.element.style.setProperty("--columns", `${first}px ${widths.join(" ")} minmax(0, 1fr)`);
    const total = widths.reduce((sum, width) => sum + parseInt(width, 10), first);
    for (const part of [this.#header, this.#sized]) part.style.width = `max(100%, ${total}px)`;
  }

  #drawHeader() {
    const cells = this.#columns.map((name, column) => {
      const isSorted = this.#sort?.column === column;
      const order = isSorted ? (this.#sort.isDescending ? "descending" : "ascending") : "none";
      const arrow = isSorted ? (this.#sort.isDescending ? " ↓" : " ↑") : "";
      const cell = el(
        "div",
        {
          role: "columnheader",
          "aria-colindex": column + 2,
          "aria-sort": order,
          id: `head-${column}`,
          title: "Sort by this column",
          click: () => this.#sortBy(column),
        },
        shown(name),
        arrow,
      );
      cell.classList.toggle("is-number", this.#numeric[column]);
      cell.classList.toggle(
        "is-active",
        this.#active.row < 0 && this.#active.isHeader === true && this.#active.column === column,
      );
      return cell;
    });
    this.#header.replaceChildren(
      el("div", { role: "columnheader", "aria-colindex": 1 }, el("span", { class: "visually-hidden" }, "Row")),
      ...cells,
    );
  }

  #draw() {
    const MARGIN = 8;
    const height = this.element.clientHeight || 400;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - MARGIN);
    const last = Math.min(this.#shown.length, Math.ceil((this.element.scrollTop + height) / ROW_HEIGHT) + MARGIN);
    const lines = [];
    for (let position = first; position < last; position++) lines.push(this.#line(position));
    this.#sized.replaceChildren(...lines);
    const isActive = this.#active.row >= 0 || this.#active.isHeader;
    if (isActive)
      this.element.setAttribute(
        "aria-activedescendant",
        this.#active.isHeader ? `head-${this.#active.column}` : `cell-${this.#active.row}-${this.#active.column}`,
      );
    else this.element.removeAttribute("aria-activedescendant");
  }

  #line(position) {
    const index = this.#shown[position];
    const line = el("div", { role: "row", class: "line", "aria-rowindex": position + 2 });
    line.toggleAttribute("data-odd", position % 2 === 1);
    line.style.top = `${position * ROW_HEIGHT}px`;
    line.append(el("div", { role: "rowheader", "aria-colindex": 1 }, count(index + 1)));
    this.#columns.forEach((_, column) => {
      const value = this.#rows[index][column];
      const whole = value === undefined ? "" : value === null ? "null" : cellText(value);
      const text = whole.length > MAX_CELL ? `${whole.slice(0, MAX_CELL)}…` : whole;
      const cell = el(
        "div",
        {
          role: "gridcell",
          "aria-colindex": column + 2,
          id: `cell-${position}-${column}`,
          click: () => this.#activate(position, column),
        },
        shown(text.replace(/\r?\n/g, " ⏎ "), this.#filter.trim()),
      );
      cell.classList.toggle("is-number", this.#numeric[column]);
      cell.classList.toggle("is-nothing", value === null);
      cell.classList.toggle("is-active", position === this.#active.row && column === this.#active.column);
      line.append(cell);
    });
    return line;
  }

  #sortBy(column) {
    const isSame = this.#sort?.column === column;
    // Up, down, and as it was.
    if (isSame && this.#sort.isDescending) this.#sort = undefined;
    else this.#sort = { column, isDescending: isSame };
    this.update();
  }

  #activate(row, column, isTold = true) {
    this.#active = { row, column };
    const top = row * ROW_HEIGHT;
    const room = this.element.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + room) this.element.scrollTop = top - room;
    this.#drawHeader();
    this.#draw();
    this.#scrollTo(document.getElementById(`cell-${row}-${column}`));
    if (isTold && this.#shown[row] !== undefined)
      this.#onCell?.(this.#shown[row], this.#columns[column], cellText(this.#rows[this.#shown[row]][column]));
  }

  #activateHeader(column) {
    this.#active = { row: -1, column, isHeader: true };
    this.#drawHeader();
    this.#draw();
    this.#scrollTo(document.getElementById(`head-${column}`));
  }

  #scrollTo(cell) {
    if (!cell) return;
    const { scrollLeft, clientWidth } = this.element;
    if (cell.offsetLeft < scrollLeft) this.element.scrollLeft = cell.offsetLeft;
    else if (cell.offsetLeft + cell.offsetWidth > scrollLeft + clientWidth)
      this.element.scrollLeft =
        cell.offsetLeft + Math.min(0, cell.offsetWidth - clientWidth) + Math.max(0, cell.offsetWidth - clientWidth);
  }

  #key(event) {
    if (event.altKey || event.metaKey) return;
    const { row, column, isHeader } = this.#active;
    const [lastRow, lastColumn] = [this.#shown.length - 1, this.#columns.length - 1];
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const go = (nextRow, nextColumn) => {
      const to = Math.min(lastColumn, Math.max(0, nextColumn));
      if (nextRow < 0 || lastRow < 0) this.#activateHeader(to);
      else this.#activate(Math.min(lastRow, nextRow), to);
    };
    const keys = {
      ArrowUp: () => go(isHeader ? -1 : row - 1, column),
      ArrowDown: () => go(isHeader ? 0 : row + 1, column),
      ArrowLeft: () => go(isHeader ? -1 : row, column - 1),
      ArrowRight: () => go(isHeader ? -1 : row, column + 1),
      PageUp: () => go(Math.max(0, row - page), column),
      PageDown: () => go(Math.max(0, row) + page, column),
      Home: () => go(event.ctrlKey ? 0 : isHeader ? -1 : row, 0),
      End: () => go(event.ctrlKey ? lastRow : isHeader ? -1 : row, lastColumn),
      Enter: () => (isHeader ? this.#sortBy(column) : go(row, column)),
    };
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
