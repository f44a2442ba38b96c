// Stand-ins for the tools that our Views call, with the names, arguments and answers of the server's own.

/** A result whose structured content is this. */
export function data(structuredContent) {
  return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

/** A failed call. */
export function failed(text) {
  return { isError: true, content: [{ type: "text", text }] };
}

/**
 * Texts that must be shown as they are, wherever they come from. Each would call `stolen` if it
 * became HTML, a URL or code.
 */
export const ATTACKS = [
  "<img src=x onerror=stolen()>",
  "<script>stolen()</script>",
  "</script><script>stolen()</script>",
  "</textarea><svg onload=stolen()>",
  "\"'><iframe srcdoc='<script>parent.stolen()</script>'>",
  "javascript:stolen()",
  "{{constructor.constructor('stolen()')()}}",
  "<style>*{display:none}</style>",
  "<base href=https://evil.example/>",
  "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
  "\u202Egnp.exe \u0000 \u200B",
  "__proto__",
];

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="320" height="200" onload="parent.stolen()"><script>parent.stolen()</script><rect width="90" height="34" fill="#e2e2f0"/><text x="26" y="22">Bob</text><image href="https://evil.example/pixel.png"/></svg>`;

function link(plantumlCode, format = "svg") {
  const encoded = Buffer.from(plantumlCode).toString("hex");
  const url = `https://www.plantuml.com/plantuml/${format}/${encoded}`;
  return {
    url,
    encoded,
    format,
    length: url.length,
    ...(url.length > 4_000 ? { warning: `the URL has ${url.length} characters; some servers refuse it` } : {}),
  };
}

/** The diagram tools; those of the engine only with `engine`. A line that has "oops" is a mistake. */
export function diagramTools({ engine = true } = {}) {
  const mistake = (text) => text.split("\n").findIndex((line) => line.includes("oops")) + 1;
  const tools = {
    encodePlantUML: ({ plantumlCode, format }) => data(link(plantumlCode, format)),
    decodePlantUML: ({ code }) =>
      /^(?:.*\/)?[0-9a-f]+$/.test(code)
        ? data({ plantumlCode: Buffer.from(code.split("/").at(-1), "hex").toString() })
        : failed("Failed to decode PlantUML code: '!' is in no code"),
  };
  if (engine) {
    tools.checkPlantUML = ({ plantumlCode }) =>
      data(
        mistake(plantumlCode)
          ? { valid: false, error: { line: mistake(plantumlCode), message: "Syntax Error?" } }
          : { valid: true, kind: "SEQUENCE", description: "(2 participants)" },
      );
    tools.renderPlantUML = ({ plantumlCode }) =>
      mistake(plantumlCode)
        ? failed("Syntax Error?")
        : { content: [{ type: "image", mimeType: "image/svg+xml", data: Buffer.from(SVG).toString("base64") }] };
  }
  return tools;
}

export const DIAGRAM = "@startuml\nBob -> Alice : hello\n@enduml";

/** What opens the diagram View. */
export function diagramCall(plantumlCode = DIAGRAM) {
  return { input: { plantumlCode }, result: data(link(plantumlCode)) };
}

const BOOK = Array.from(
  { length: 60 },
  (_, index) => `Paragraph ${index}: bread is flour, water and salt — the dough rests ${index} hours.`,
).join("\n\n");
const BOOK_BYTES = Buffer.from(BOOK);

/** A passage of the book, as am7_vector_search gives it. */
export function passage(index, more = {}) {
  const text = BOOK.split("\n\n")[index];
  const start = BOOK_BYTES.indexOf(text);
  return {
    uri: `am7://default/chunk/${index}`,
    text,
    score: 1 / (index + 1),
    relevance: Math.max(0, 0.95 - index / 50),
    semanticRank: index + 1,
    keywordRank: index > 20 ? undefined : 21 - index,
    chunk: index,
    chunkCount: 60,
    sourceUri: "am7://default/data.data/bread",
    sourceTitle: "The Baker’s Book",
    sourceFile: "bakers-book.pdf",
    page: index + 1,
    chapter: 2,
    chapterTitle: "Doughs",
    start,
    end: start + Buffer.byteLength(text),
    ...more,
  };
}

/** The tools of knowledge that the search View calls. */
export function searchTools({ results = [passage(3), passage(7), passage(12)], omitted } = {}) {
  return {
    am7_vector_search: ({ query, scopeUri }) => {
      if (query.includes("nothing"))
        return {
          content: [{ type: "text", text: "No passage was found that you may read and that fits this search." }],
          structuredContent: { results: [] },
        };
      if (query.includes("broken")) return failed("the database is not reachable");
      return data({
        results: results.filter((one) => !scopeUri || one.sourceUri === scopeUri),
        ...(omitted ? { omitted } : {}),
      });
    },
    am7_extract_content: ({ uri, start = 0 }) => {
      if (uri !== "am7://default/data.data/bread") return failed(`there is no record ${uri}`);
      if (start > BOOK_BYTES.length || (BOOK_BYTES[start] & 0xc0) === 0x80)
        return failed(`start is ${start}, which is no nextStart of this text`);
      let end = Math.min(BOOK_BYTES.length, start + 3_000);
      while ((BOOK_BYTES[end] & 0xc0) === 0x80) end--;
      return data({
        content: BOOK_BYTES.subarray(start, end).toString(),
        sourceUri: uri,
        mimeType: "text/plain",
        characterCount: BOOK.length,
        extractionMetadata: {},
        ...(end < BOOK_BYTES.length ? { nextStart: end } : {}),
      });
    },
  };
}

const TEXT_TYPES = /^text\/|json|yaml|xml/;

/**
 * The artifact tools over `store`: MIME type, bytes, description and the bytes of older versions by
 * name. Answers have the form of read_artifact.
 */
export function artifactTools(store) {
  const newest = (name) => store[name][3]?.length ?? 0;
  const uri = (name, version = newest(name)) => `artifact://${encodeURIComponent(name)}?version=${version}`;
  return {
    list_artifacts: ({ filter = "", limit = 50, cursor, details } = {}) => {
      const names = Object.keys(store)
        .sort()
        .filter(
          (name) =>
            (name + store[name][0]).toLowerCase().includes(filter.toLowerCase()) &&
            (cursor === undefined || name > cursor),
        );
      const artifacts = names.slice(0, limit).map((name) => ({
        name,
        version: newest(name),
        uri: uri(name),
        mime_type: store[name][0],
        size_bytes: store[name][1].length,
        description: store[name][2],
        ...(details
          ? { details: { created_at: "2026-11-22T10:00:00Z", hash: "abc", source_tool_name: "files__read" } }
          : {}),
      }));
      return data({ artifacts, ...(names.length > limit ? { next_cursor: artifacts.at(-1).name } : {}) });
    },
    read_artifact: ({ name, version = store[name] ? newest(name) : 0, start_byte, max_bytes = 65_536 }) => {
      if (!store[name] || version > newest(name)) return failed(`${name} version ${version} is not there`);
      const [mimeType, last, , older = []] = store[name];
      const whole = older[version] ?? last;
      const report = (start, end) => ({
        "marquetry/read": { name, version, size_bytes: whole.length, start_byte: start, end_byte: end },
      });
      const note = { type: "text", text: `${name} version ${version} (${mimeType}).` };
      if (start_byte === undefined && mimeType.startsWith("image/") && !mimeType.includes("svg"))
        return {
          content: [{ type: "image", mimeType, data: whole.toString("base64") }, note],
          _meta: report(0, whole.length),
        };
      const start = start_byte ?? 0;
      let end = Math.min(whole.length, start + Math.min(max_bytes, 262_144));
      const isText = TEXT_TYPES.test(mimeType);
      while (isText && end < whole.length && (whole[end] & 0xc0) === 0x80) end--;
      const part = whole.subarray(start, end);
      const content = isText
        ? { type: "text", text: part.toString() }
        : { type: "resource", resource: { uri: uri(name, version), mimeType, blob: part.toString("base64") } };
      return { content: [content, note], _meta: report(start, end) };
    },
  };
}

/** One second of a tone. */
function wave() {
  const size = 8_000;
  const wav = Buffer.alloc(44 + size);
  wav.write("RIFF");
  wav.writeUInt32LE(36 + size, 4);
  wav.write("WAVEfmt ", 8);
  [
    [16, 4],
    [1, 2],
    [1, 2],
    [8_000, 4],
    [8_000, 4],
    [1, 2],
    [8, 2],
  ].reduce((at, [value, bytes]) => wav.writeUIntLE(value, at, bytes), 16);
  wav.write("data", 36);
  wav.writeUInt32LE(size, 40);
  for (let at = 0; at < size; at++) wav[44 + at] = 128 + Math.round(60 * Math.sin(at / 3));
  return wav;
}

const PIXELS = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAFElEQVR4nGP8z4APMOGVZRip0gBBLAETee26JgAAAABJRU5ErkJggg==",
  "base64",
);

/** Artifacts of every kind. */
export function artifacts() {
  const rows = Array.from(
    { length: 20_000 },
    (_, index) =>
      `${index},"Town, ${["Köln", "東京", "São Paulo"][index % 3]}",${(index * 7_919) % 1_000_003},"two\nlines ${index}"`,
  );
  const log = Array.from(
    { length: 30_000 },
    (_, index) => `${index} ${index % 1_000 === 999 ? "ERROR" : "info"} request was answered`,
  );
  return {
    "cities.csv": ["text/csv", Buffer.from(`id,city,people,note\r\n${rows.join("\r\n")}\r\n`)],
    "items.json": [
      "application/json",
      Buffer.from(
        `{"items": [${Array.from({ length: 350 }, (_, index) => `{"id": ${index === 3 ? "12345678901234567890" : index}, "name": "Item ${index}", "tags": ["a"], "none": null}`)}], "next": "x"}`,
      ),
    ],
    "settings.json": [
      "application/json",
      Buffer.from(
        JSON.stringify({
          list: Array.from({ length: 12_345 }, (_, index) => index),
          deep: { er: { est: "here" } },
          empty: {},
          text: "x",
        }),
      ),
    ],
    "events.ndjson": ["application/x-ndjson", Buffer.from('{"a":1,"b":"x"}\n{"a":2.50,"c":[1,2]}\n')],
    "log.txt": ["text/plain", Buffer.from(`${log.join("\n")}\n`)],
    "page.html": ["text/html", Buffer.from("<h1>Hi</h1>\n<script>parent.stolen()</script>\n")],
    "pixels.png": ["image/png", PIXELS],
    "drawing.svg": ["image/svg+xml", Buffer.from(SVG)],
    "tone.wav": ["audio/wav", wave()],
    "program.bin": ["application/octet-stream", Buffer.from(Array.from({ length: 9_000 }, (_, index) => index % 256))],
    "latin.txt": ["text/plain", Buffer.from([0x61, 0xe4, 0x62, 0x0a])],
    "nothing.txt": ["text/plain", Buffer.alloc(0)],
  };
}
