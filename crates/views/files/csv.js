// Comma-separated values (RFC 4180), read piece by piece.

/** Most columns of a table; further cells of a row are left out. */
export const MAX_COLUMNS = 200;

/** The character that separates the cells of a text: the one that its first line has most of, outside of quotes. */
export function separatorOf(text) {
  const first =
    text
      .slice(0, 64_000)
      .replace(/"(?:[^"]|"")*"/g, "")
      .split(/\r?\n/, 1)[0] ?? "";
  let best = ",";
  for (const candidate of [",", ";", "\t", "|"]) {
    if (first.split(candidate).length > first.split(best).length) best = candidate;
  }
  return best;
}

/**
 * Reads rows out of text that comes in pieces. A quote that stands in the middle of a cell is text,
 * as spreadsheets have it.
 */
export class CsvReader {
  #separator;
  #row = [];
  #cell = "";
  #isQuoted = false;
  /** A quote inside of a quoted cell: the next character says whether it ended the cell. */
  #sawQuote = false;
  #sawReturn = false;
  /** Rows that are complete. */
  rows = [];
  /** Whether a row had more than `MAX_COLUMNS` cells. */
  isCut = false;

  constructor(separator) {
    this.#separator = separator;
  }

  push(text) {
    let at = 0;
    while (at < text.length) {
      const character = text[at];
      if (this.#sawReturn) {
        this.#sawReturn = false;
        if (character === "\n") {
          at++;
          continue;
        }
      }
      if (this.#isQuoted && !this.#sawQuote) {
        const quote = text.indexOf('"', at);
        this.#cell += text.slice(at, quote < 0 ? text.length : quote);
        if (quote < 0) return;
        this.#sawQuote = true;
        at = quote + 1;
        continue;
      }
      if (this.#sawQuote) {
        this.#sawQuote = false;
        if (character === '"') {
          this.#cell += '"';
          at++;
          continue;
        }
        this.#isQuoted = false;
      }
      if (character === '"' && this.#cell === "") this.#isQuoted = true;
      else if (character === this.#separator) this.#endCell();
      else if (character === "\n" || character === "\r") {
        this.#sawReturn = character === "\r";
        this.#endRow();
      } else {
        const end = this.#plainEnd(text, at);
        this.#cell += text.slice(at, end);
        at = end;
        continue;
      }
      at++;
    }
  }

  /** Ends the text: its last line need not end with a line break. */
  end() {
    if (this.#cell !== "" || this.#row.length > 0 || this.#isQuoted) this.#endRow();
  }

  #plainEnd(text, at) {
    let end = at + 1;
    while (end < text.length && text[end] !== this.#separator && text[end] !== "\n" && text[end] !== "\r") end++;
    return end;
  }

  #endCell() {
    if (this.#row.length < MAX_COLUMNS) this.#row.push(this.#cell);
    else this.isCut = true;
    this.#cell = "";
    this.#isQuoted = this.#sawQuote = false;
  }

  #endRow() {
    const isBlank = this.#row.length === 0 && this.#cell === "" && !this.#isQuoted;
    this.#endCell();
    // A blank line is not a row.
    if (!isBlank) this.rows.push(this.#row);
    this.#row = [];
  }
}
