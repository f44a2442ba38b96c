// The parts of our Views that need no browser: CSV, JSON, order of tables, passages, pictures, the
// text of diagrams, pieces of artifacts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ArtifactReader, bytesOf, hexOf, kindOf, pieceOf } from "../../crates/views/files/artifact-reader.js";
import { CsvReader, MAX_COLUMNS, separatorOf } from "../../crates/views/files/csv.js";
import { checked, lengthOf, problemsOf } from "../../crates/views/files/diagram-source.js";
import { ExactNumber, cellText, parseJson, parseJsonLines, tableOf } from "../../crates/views/files/json.js";
import { hiddenCharacters, literal, occurrences, structured } from "../../crates/views/files/page.js";
import { fitted, kept, zoomed } from "../../crates/views/files/pan-zoom.js";
import {
  citationOf,
  cutAt,
  isStillIn,
  ordered,
  passagesOf,
  patternOf,
  placeOf,
  quoted,
  titleOf,
} from "../../crates/views/files/passages.js";
import { sortedRows } from "../../crates/views/files/table.js";

function csv(text, { separator = ",", pieces = 1 } = {}) {
  const reader = new CsvReader(separator);
  const size = Math.ceil(text.length / pieces) || 1;
  for (let at = 0; at < text.length; at += size) reader.push(text.slice(at, at + size));
  reader.end();
  return reader.rows;
}

test("CSV is read as RFC 4180 has it, however it is cut into pieces", () => {
  for (const [text, rows] of [
    ["", []],
    ["a,b", [["a", "b"]]],
    [
      "a,b\r\n1,2\r\n",
      [
        ["a", "b"],
        ["1", "2"],
      ],
    ],
    ['"a ""q""","x\r\ny"\n', [['a "q"', "x\r\ny"]]],
    [
      "a,\n,b\n",
      [
        ["a", ""],
        ["", "b"],
      ],
    ],
    ["a\n\n\nb\n", [["a"], ["b"]]],
    ['a"b,c\n', [['a"b', "c"]]],
    ['"open,\nto the end', [["open,\nto the end"]]],
    ['"",x\r', [["", "x"]]],
    ['"a"b,c', [["ab", "c"]]],
  ]) {
    for (let pieces = 1; pieces <= Math.max(1, text.length); pieces++)
      assert.deepEqual(csv(text, { pieces }), rows, JSON.stringify([text, pieces]));
  }
});

test("CSV: the separator is that of the first line, and columns are bounded", () => {
  for (const [text, separator] of [
    ["a,b\n", ","],
    ["a;b;c,d\n", ";"],
    ["a\tb\n1,2,3", "\t"],
    ["a|b", "|"],
    ['"x;y;z",b', ","],
    ["", ","],
  ])
    assert.equal(separatorOf(text), separator, text);
  const reader = new CsvReader(",");
  reader.push(`${"x,".repeat(300)}\n`);
  assert.equal(reader.rows[0].length, MAX_COLUMNS);
  assert.ok(reader.isCut);
});

// That digits are kept is tested in the browser: Node.js 20 does not tell how a number was written.
test("lists of objects are tables", () => {
  assert.equal(cellText(new ExactNumber("12345678901234567890")), "12345678901234567890");
  const table = tableOf(parseJson('[{"a": 1, "b": {"c": [1]}}, {"a": 2, "__proto__": 3}]'));
  assert.deepEqual(table.columns, ["a", "b", "__proto__"]);
  assert.equal(cellText(table.rows[0][1]), '{"c":[1]}');
  assert.deepEqual(table.rows[1], [2, undefined, 3]);
  assert.deepEqual(tableOf({ items: [{ a: 1 }], next: "x", empty: [] }).columns, ["a"]);
  assert.deepEqual(tableOf([[1, 2], [3]]).columns, ["0", "1"]);
  for (const none of [[], [1, 2], [{ a: 1 }, 2], { a: 1 }, "x", null, { a: [{ b: 1 }], c: [{ d: 1 }] }])
    assert.equal(tableOf(none), undefined);
  assert.deepEqual(parseJsonLines('{"a":1}\n\n{"a":2}\r\n'), [{ a: 1 }, { a: 2 }]);
  assert.throws(() => parseJsonLines('{"a":1}\n{'), /^Error: line 2: /);
});

test("rows are sorted: numbers as numbers, texts after them, empty ones last in both directions", () => {
  const rows = [["10"], ["b"], [""], ["9"], [null], ["a"], ["10"]];
  const indexes = rows.map((_, index) => index);
  assert.deepEqual(sortedRows(rows, indexes, 0, false), [3, 0, 6, 5, 1, 2, 4]);
  assert.deepEqual(sortedRows(rows, indexes, 0, true), [1, 5, 0, 6, 3, 2, 4]);
});

test("passages: what is none is left out, and they are cited and ordered", () => {
  const passage = {
    uri: "am7://d/chunk/1",
    text: "One.\nTwo.",
    sourceUri: "am7://d/data.data/1",
    sourceTitle: " Bread ",
    sourceFile: "b.pdf",
    page: 3,
    chapterTitle: "Dough\n",
    chunk: 0,
    chunkCount: 9,
    start: 0,
    end: 9,
  };
  assert.equal(titleOf(passage), "Bread");
  assert.equal(placeOf(passage), "b.pdf · page 3 · “Dough” · passage 1 of 9");
  assert.equal(citationOf(passage), "Bread, b.pdf, page 3, “Dough” <am7://d/data.data/1>");
  assert.equal(quoted([passage]), "[1] Bread, b.pdf, page 3, “Dough” <am7://d/data.data/1>\n\n> One.\n> Two.");
  assert.equal(titleOf({ sourceFile: "/a/b\\c.md" }), "c.md");
  assert.equal(titleOf({}), "a source without a name");
  assert.deepEqual(passagesOf({ results: [null, 1, {}, { text: 7 }, passage] }).length, 1);
  assert.deepEqual(passagesOf(undefined), []);
  assert.equal(passagesOf({ results: Array(5_000).fill(passage) }).length, 200);
  const list = passagesOf({
    results: [
      { text: "a", keywordRank: 2, sourceTitle: "z" },
      { text: "b", semanticRank: 1, sourceTitle: "y" },
      { text: "c", keywordRank: 1, semanticRank: 2, sourceTitle: "z" },
    ],
  });
  const texts = (order) =>
    ordered(list, order)
      .map(({ text }) => text)
      .join("");
  assert.deepEqual(["best", "meaning", "words", "source"].map(texts), ["abc", "bca", "cab", "bac"]);
});

test("the words of a question are marked where words begin", () => {
  const marked = (text, query) => occurrences(text, patternOf(query)).map(([start, end]) => text.slice(start, end));
  assert.deepEqual(marked("Start the art of arts.", "what is the ART?"), ["art", "art"]);
  assert.deepEqual(marked("東京の天気", "天気"), ["天気"]);
  assert.deepEqual(marked("über Übermut", "über"), ["über", "Über"]);
  assert.deepEqual(marked("a (b) c.* x", "the of"), []);
  assert.deepEqual(occurrences("a.b a+b A.B", literal("a.b")), [
    [0, 3],
    [8, 11],
  ]);
  assert.deepEqual(occurrences("x", ""), []);
});

test("a source is cut at bytes", () => {
  assert.deepEqual(cutAt("aä€b", 100, 101, 103), ["a", "ä", "€b"]);
  assert.deepEqual(cutAt("abc", 10, 0, 99), ["", "abc", ""]);
  assert.deepEqual(cutAt("abc", 0, 5, 9), ["abc", "", ""]);
  assert.ok(isStillIn("The Baker’s\n “bread”", 'The Baker\'s "bread"'));
  assert.ok(isStillIn("one two three", "one two… (cut; resources/read of am7://x gives all 9 bytes)"));
  assert.ok(!isStillIn("one two", "one three"));
});

test("a picture fits, stays under the pointer when zoomed, and is never lost", () => {
  const picture = { width: 400, height: 200 };
  const frame = { width: 200, height: 200 };
  assert.deepEqual(fitted(picture, frame), { scale: 0.5, x: 0, y: 50 });
  assert.deepEqual(fitted({ width: 10, height: 10 }, frame), { scale: 1, x: 95, y: 95 });
  const place = zoomed({ scale: 1, x: 10, y: 20 }, 2, 50, 60);
  assert.deepEqual(place, { scale: 2, x: -30, y: -20 });
  assert.equal(zoomed({ scale: 1, x: 0, y: 0 }, 1e9, 0, 0).scale, 40);
  assert.equal(zoomed({ scale: 1, x: 0, y: 0 }, 0, 0, 0).scale, 1);
  assert.deepEqual(kept({ scale: 1, x: 9_999, y: -9_999 }, picture, frame), { scale: 1, x: 176, y: -176 });
});

test("the problems of a diagram's text are on their lines", () => {
  const problems = (text) => problemsOf(text).map(({ line, kind, isFatal = false }) => [line, kind, isFatal]);
  assert.deepEqual(problems(""), []);
  assert.deepEqual(problems("@startuml\nA -> B\n@enduml"), []);
  assert.deepEqual(problems("A -> B\r\nB -> A\r\n"), []);
  assert.deepEqual(problems("A\n@enduml"), [[2, "bad", false]]);
  assert.deepEqual(problems("@startuml\nA\n@startmindmap\n@endmindmap"), [[1, "bad", false]]);
  assert.deepEqual(problems("A\nB \u202E C"), [[2, "warn", false]]);
  assert.deepEqual(problems("A\n\ud800"), [[2, "bad", true]]);
  assert.deepEqual(problems(`${"€".repeat(17_066)}xx`), []);
  assert.deepEqual(problems(`x\n${"€".repeat(17_067)}`), [[2, "bad", true]]);
  assert.equal(problems("\u202E\n".repeat(1_000)).length, 20);
  assert.deepEqual(
    [1_999, 4_001, 9_000].map((length) => lengthOf(length).kind),
    ["ok", "warn", "bad"],
  );
});

test("what the engine says of a diagram is understood, also in part", () => {
  assert.deepEqual(checked({ valid: true, kind: "SEQUENCE", description: "(2 participants)" }), {
    isValid: true,
    about: "SEQUENCE (2 participants)",
  });
  const wrong = checked({ valid: false, error: { line: 3, message: "Syntax Error?" } });
  assert.deepEqual(wrong.problem, { line: 3, kind: "bad", text: "Syntax Error?" });
  assert.equal(checked({ valid: false }).problem.line, undefined);
  assert.equal(checked({ errors: [{ line: 0, message: "x" }] }).problem.line, undefined);
});

test("kinds of artifacts by their MIME types", () => {
  const kinds = {
    "text/csv": "table",
    "text/csv; charset=utf-8": "table",
    "application/json": "json",
    "application/vnd.x+json": "json",
    "application/x-ndjson": "json-lines",
    "image/PNG": "picture",
    "audio/wav": "sound",
    "video/mp4": "film",
    "text/html": "text",
    "application/x-yaml": "text",
    "application/pdf": "bytes",
    "": "bytes",
  };
  for (const [type, kind] of Object.entries(kinds)) assert.equal(kindOf(type), kind, type);
  assert.equal(kindOf(undefined), "bytes");
});

test("pieces of an artifact: text, bytes, and a note instead of bytes", () => {
  const report = (start_byte, end_byte, size_bytes) => ({
    "marquetry/read": { name: "a", version: 1, size_bytes, start_byte, end_byte },
  });
  const text = pieceOf(
    {
      content: [
        { type: "text", text: "aä" },
        { type: "text", text: "note" },
      ],
      _meta: report(4, 7, 9),
    },
    4,
  );
  assert.deepEqual([text.text, text.start, text.end, text.size, text.version], ["aä", 4, 7, 9, 1]);
  const blob = pieceOf({ content: [{ type: "resource", resource: { uri: "x", blob: "AP8=" } }] }, 2);
  assert.deepEqual([[...blob.bytes], blob.start, blob.end], [[0, 255], 2, 4]);
  const note = pieceOf({ content: [{ type: "text", text: "It is binary." }], _meta: report(0, 0, 5) }, 0);
  assert.deepEqual([note.note, note.text, note.end], ["It is binary.", undefined, 0]);
  assert.throws(() => pieceOf({ content: [] }, 0));
  assert.throws(() => bytesOf("!"));
  assert.equal(hexOf(bytesOf("AEH/")), `00000000  ${"00 41 ff".padEnd(47)}  ·A·`);
});

test("an artifact is read to its end; a server that gives nothing is no endless loop", async () => {
  const whole = new TextEncoder().encode("aä€".repeat(50_000));
  const calls = [];
  const view = {
    callTool: async (_name, { start_byte, max_bytes }) => {
      calls.push([start_byte, max_bytes]);
      // Cut inside of characters: the bytes come as a blob.
      const end = Math.min(whole.length, start_byte + max_bytes);
      return {
        content: [
          {
            type: "resource",
            resource: { uri: "x", blob: Buffer.from(whole.subarray(start_byte, end)).toString("base64") },
          },
        ],
      };
    },
  };
  const reader = new ArtifactReader(view, "read_artifact", { name: "a", size: whole.length });
  let text = "";
  while (!reader.isDone) text += await reader.nextText();
  assert.equal(text, "aä€".repeat(50_000));
  assert.deepEqual(calls, [
    [0, 65_536],
    [65_536, 262_144],
  ]);
  assert.ok(reader.isBinary);
  const empty = { callTool: async () => ({ content: [{ type: "text", text: "" }] }) };
  await assert.rejects(new ArtifactReader(empty, "read_artifact", { name: "a", size: 9 }).next(), /no bytes/);
  const refused = { callTool: async () => ({ isError: true, content: [{ type: "text", text: "it has expired" }] }) };
  await assert.rejects(new ArtifactReader(refused, "read_artifact", { name: "a", size: 9 }).next(), /it has expired/);
});

test("data of a result: structured content, or a text that is JSON", () => {
  assert.deepEqual(structured({ structuredContent: { a: 1 } }), { a: 1 });
  assert.deepEqual(
    structured({
      content: [
        { type: "text", text: "hello" },
        { type: "text", text: '{"a":2}' },
      ],
    }),
    { a: 2 },
  );
  for (const none of [{}, { content: 7 }, { content: [null, { type: "text", text: "7" }] }])
    assert.equal(structured(none), undefined);
});

test("hidden characters are those that change what is read, not those that scripts need", () => {
  assert.deepEqual(hiddenCharacters("a\u202Eb\u200Bc\u0000\u{E0041}").length, 4);
  assert.deepEqual(hiddenCharacters("tab\tline\n👩‍👩‍👧 نمی‌خواهم ❤️ é"), []);
});
