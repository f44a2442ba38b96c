// A call as a scenario that `marquetry test` runs.

import { data, post, text } from "./api.js";
import { button, copy, download, fill, h, newId } from "./dom.js";
import { HIDDEN, isObject, parse, stringify } from "./json.js";
import { literal } from "./result.js";

const VOLATILE = [
  /\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?/,
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/i,
  /\b1[5-9]\d{8}(\d{3})?\b/,
  /_[0-9a-f]{8}\b/,
];

const CAPTURE = "marquetry/capture";
// A longer answer is too much for a file that people read.
const MAX_STAND_IN = 1 << 20;

/**
 * The server of a call as a scenario describes it: it gives the recorded answer to each call.
 * Undefined for names that were changed.
 */
function standIn({ tool, server, said, outputSchema, decided }) {
  const prefix = `${server}__`;
  if (!said || !tool.startsWith(prefix)) return undefined;
  // The answer stays as it was written; a scenario fills in what is behind "${".
  const it = { answer: { raw: said } };
  if (outputSchema) it.output_schema = outputSchema;
  const artifacts = {};
  for (const { setting, value } of decided ?? []) {
    const [key, inner] = setting.split(".");
    // The profile is that of the client, which is another one in a scenario.
    if (key === "clients") continue;
    if (inner) artifacts[key] = { ...artifacts[key], [inner]: value };
    else artifacts[key] = value;
  }
  const config = Object.keys(artifacts).length ? { config: { artifacts } } : {};
  return { ...config, upstreams: { [server]: { tools: { [tool.slice(prefix.length)]: it } } } };
}

/** Writes a scenario that `marquetry test` runs. Parts that change with each call are left out of what is expected. */
function scenario({ tool, args, result }, given, { id, keep }) {
  const steady = (value) => {
    if (typeof value === "string") {
      if (VOLATILE.some((it) => it.test(value))) {
        const words = longestSteady(value);
        return words ? { $mentions: [words] } : { $any: true };
      }
      return value;
    }
    if (Array.isArray(value)) return value.map(steady);
    if (isObject(value)) {
      const found = {};
      for (const [key, item] of Object.entries(value)) if (key !== "_meta") found[key] = steady(item);
      return found;
    }
    return value;
  };
  const expect = {};
  if (keep.error) expect.is_error = result.isError === true;
  if (keep.content && Array.isArray(result.content)) expect.content = result.content.map(steady);
  if (keep.structured && result.structuredContent !== undefined) expect.structured = steady(result.structuredContent);
  const { status } = result._meta?.[CAPTURE] ?? {};
  if (status) expect.capture = { status };
  // JSON is YAML: it needs no rules of its own for quotes.
  const line = (name, value) => `${name}: ${stringify(value).replaceAll("${", "$$${")}\n`;
  let yaml = `# marquetry test THIS_FILE${given ? "" : ` --url ${document.documentElement.dataset.endpoint || "http://127.0.0.1:3001/mcp"}`}\n`;
  yaml +=
    line("id", id) +
    line("title", `${tool} answers as it did`) +
    (given ? `given: ${stringify(given)}\n` : "") +
    "steps:\n" +
    `  - ${line("call", tool)}`;
  if (args !== undefined && Object.keys(args).length) yaml += `    ${line("with", args)}`;
  if (Object.keys(expect).length) {
    yaml += "    expect:\n";
    for (const [name, value] of Object.entries(expect)) yaml += `      ${line(name, value)}`;
  }
  return yaml;
}

/** The longest part of a text without what changes. */
function longestSteady(textValue) {
  let parts = [textValue];
  for (const pattern of [...VOLATILE, /\n/])
    parts = parts.flatMap((part) =>
      part.split(new RegExp(pattern.source, `g${pattern.flags.replace("g", "")}`)).filter((it) => it !== undefined),
    );
  const best = parts
    .filter(Boolean)
    .sort((a, b) => b.length - a.length)[0]
    ?.trim();
  return best && best.length >= 3 ? best.slice(0, 200) : undefined;
}

/** The tab that shows the scenario, and copies, downloads or saves it. */
export async function scenarioView(record, result, tool) {
  const isSmall = record.upstream?.kept && record.upstream.bytes <= MAX_STAND_IN;
  const said = isSmall ? await text(`calls/${encodeURIComponent(record.id)}/said`).catch(() => undefined) : undefined;
  const given = standIn({
    tool: record.tool,
    server: record.server,
    said,
    outputSchema: tool?.outputSchema,
    decided: record.decided,
  });
  const isAlone = h("input", {
    type: "checkbox",
    id: newId("alone"),
    checked: given !== undefined,
    disabled: given === undefined,
    onchange: () => draw(),
  });
  const id = h("input", { type: "text", id: newId("id"), value: record.tool.replace(/\W+/g, "_").toLowerCase() });
  const ticks = [
    ["error", "whether it failed"],
    ["content", "its content"],
    ["structured", "its structured content"],
  ].map(([key, label]) => {
    const box = h("input", { type: "checkbox", id: newId("tick"), checked: true, onchange: () => draw() });
    return { key, box, row: h("label", { for: box.id, class: "switch" }, box, ` ${label}`) };
  });
  const place = h("div");
  const folder = h("span");
  const saved = h("p", { role: "status" });
  const save = () =>
    post("scenarios", { name: id.value || "saved_call", yaml }).then(
      (it) => fill(saved, `Saved as ${it.file}`),
      (error) => {
        fill(saved, h("strong.bad", error.message));
        // The next attempt has a name that is free, or nearer to one.
        if (error.status === 409) {
          id.value = id.value.replace(/(_\d+)?$/, (end) => `_${Number(end.slice(1) || 1) + 1}`);
          draw();
        }
      },
    );
  data("state").then(
    (it) => it.scenarios && fill(folder, " ", button("Save to the folder", save)),
    () => {},
  );
  let yaml = "";
  const draw = () => {
    const args = record.arguments.json ? parse(record.arguments.json) : undefined;
    const keep = Object.fromEntries(ticks.map((it) => [it.key, it.box.checked]));
    yaml = scenario({ tool: record.tool, args, result }, isAlone.checked ? given : undefined, {
      id: id.value.replace(/\W+/g, "_") || "saved_call",
      keep,
    });
    fill(place, literal(yaml, "Scenario"));
  };
  id.addEventListener("input", draw);
  draw();
  const isHidden = record.arguments.json?.includes(HIDDEN);
  return [
    h("p", "A scenario repeats the call and compares the answer: ", h("code", "marquetry test FILE"), "."),
    h(
      "p",
      h("label", { for: isAlone.id, class: "switch" }, isAlone, " The recorded answer stands in for the server"),
      h(
        "span.muted",
        given
          ? " Otherwise the scenario calls this server, with --url."
          : " This call has no answer of a server that could be recorded; the scenario calls this server, with --url.",
      ),
    ),
    isHidden ? h("p.warn", "A secret argument is not recorded. Write it into the file by hand.") : null,
    h("p", h("label", { for: id.id }, "Name "), id),
    h(
      "fieldset",
      h("legend", "Expected"),
      ticks.map((it) => it.row),
    ),
    h(
      "p",
      button("Copy", () => copy(yaml)),
      " ",
      button("Download", () => download(`${id.value || "saved_call"}.yaml`, yaml, "application/yaml")),
      folder,
    ),
    saved,
    place,
  ];
}
