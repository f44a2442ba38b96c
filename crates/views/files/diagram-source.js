// Checks of a diagram's text without a PlantUML engine.
import { codePoint, count, hiddenCharacters } from "./page.js";

/** Largest diagram that `encodePlantUML` takes, in bytes of UTF-8. */
export const MAX_BYTES = 51_200;

/** Length of a URL from which browsers or servers may refuse it: the answer has a warning from there on. */
export const LONG_URL = 4_000;

/** Length of a URL that Jetty, and so most PlantUML servers, refuses: all headers have 8,192 bytes. */
export const REFUSED_URL = 8_000;

/** Number of bytes of a text in UTF-8. */
export function utf8Length(text) {
  return new TextEncoder().encode(text).length;
}

/** Problems of a text: `{line, kind, text, isFatal}`; lines count from 1. A fatal one keeps it from being encoded. */
export function problemsOf(source) {
  const MOST = 20;
  const problems = [];
  if (source.trim() === "") return problems;
  const size = utf8Length(source);
  if (size > MAX_BYTES) {
    const text = `The diagram has ${count(size)} bytes; at most ${count(MAX_BYTES)} can be encoded.`;
    problems.push({ line: lineOfByte(source, MAX_BYTES), kind: "bad", text, isFatal: true });
  }
  const open = [];
  source.split("\n").forEach((line, index) => {
    if (problems.length >= MOST) return;
    const number = index + 1;
    if (!line.isWellFormed()) {
      problems.push({
        line: number,
        kind: "bad",
        text: "Half of a character (a lone surrogate) cannot be encoded.",
        isFatal: true,
      });
    }
    const hidden = hiddenCharacters(line.replace(/\r$/, ""));
    if (hidden.length > 0) {
      const names = [...new Set(hidden.map(codePoint))].slice(0, 4).join(", ");
      problems.push({
        line: number,
        kind: "warn",
        text: `Hidden characters: ${names}. The line may read differently from what it does.`,
      });
    }
    const block = /^\s*@(start|end)([a-z]+)\b/i.exec(line);
    if (!block) return;
    const [, side, name] = block.map((part) => part.toLowerCase());
    if (side === "start") open.push({ name, number });
    else if (open.at(-1)?.name === name) open.pop();
    else
      problems.push({
        line: number,
        kind: "bad",
        text: `@end${name} has no @start${name} before it.`,
      });
  });
  for (const { name, number } of open.slice(0, 3)) {
    problems.push({ line: number, kind: "bad", text: `@start${name} has no @end${name}.` });
  }
  return problems;
}

/** The line on which a byte of a text lies, from 1. */
function lineOfByte(text, at) {
  const before = new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, at));
  return before.split("\n").length;
}

/** The share of the accepted length that a URL uses, for people. */
export function lengthOf(length) {
  const kind = length > REFUSED_URL ? "bad" : length > LONG_URL ? "warn" : "ok";
  return { kind, part: Math.min(1, length / REFUSED_URL), text: `${count(length)} characters` };
}

/** The result of a check by the engine: `{isValid, kind, problem}`. */
export function checked(data) {
  const error = data.error ?? data.errors?.[0];
  const isValid = data.valid !== false && !error;
  const about = [data.kind, data.description].filter((text) => typeof text === "string").join(" ");
  if (isValid) return { isValid, about };
  const line = Number(error?.line);
  const text = typeof error?.message === "string" ? error.message : "PlantUML does not understand this diagram.";
  return {
    isValid,
    about,
    problem: { line: Number.isInteger(line) && line > 0 ? line : undefined, kind: "bad", text },
  };
}
