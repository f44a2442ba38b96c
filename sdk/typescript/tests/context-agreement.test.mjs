// The module and the Rust crate return the same results. The crate's test `agreement` writes the files of results.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  Am7Uri,
  LegacyTokenAdapter,
  McpContextBuilder,
  McpContextFilter,
  neutralize,
  parse,
} from "../context-blocks/index.js";

const folder = new URL("../../../tests/context-blocks/", import.meta.url);
const cases = JSON.parse(readFileSync(new URL("cases.json", folder), "utf8"));
const generated = readFileSync(new URL("generated.jsonl", folder), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line));

/** Fields that the crate's results have only if they say something. */
const OPTIONAL = ["id", "thumbnail", "trust", "untrusted", "pending"];

/** Describes the blocks of a text as the crate's test does. */
function described(text) {
  return parse(text).blocks.map((block) => {
    assert.equal(text.slice(block.start, block.end), block.raw);
    const { raw, ...fields } = JSON.parse(JSON.stringify(block));
    // `JSON.stringify` would write -0 as 0.
    if (!block.inline) fields.data = block.data;
    for (const name of OPTIONAL) if (block[name] !== undefined && block[name] !== false) fields[name] = block[name];
    if (block.attribute("TITLE") !== undefined) fields.title = block.attribute("TITLE");
    const { schema, data } = block.payload();
    return schema === undefined ? fields : { ...fields, schema, payload: data };
  });
}

function subjects(text) {
  const lists = Object.entries(new McpContextFilter().filter(text).contexts).filter(([, blocks]) => blocks.length > 0);
  return Object.fromEntries(lists.map(([name, blocks]) => [name, blocks.map((block) => block.start)]));
}

/** Returns the results of all functions on one text, without those that are empty or leave the text unchanged. */
function results(text) {
  const all = { showEphemeral: true, showReasoning: true, mediaBase: "/base" };
  const raw = { showEphemeral: true, renderResources: false };
  const changed = {
    filtered: new McpContextFilter().filter(text).content,
    shown: new McpContextFilter(all).filter(text).content,
    raw: new McpContextFilter(raw).filter(text).content,
    upgraded: LegacyTokenAdapter.upgrade(text),
    downgraded: LegacyTokenAdapter.downgrade(text),
    neutral: neutralize(text),
  };
  const lists = { blocks: described(text), problems: parse(text).problems };
  const found = subjects(text);
  return {
    ...Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)),
    ...Object.fromEntries(Object.entries(changed).filter(([, result]) => result !== text)),
    ...(Object.keys(found).length > 0 && { subjects: found }),
  };
}

/** Builds blocks that are described with the names of the module's options. */
function build(blocks) {
  const builder = new McpContextBuilder();
  for (const { data, steps, ...head } of blocks) {
    if (steps !== undefined) builder.addReasoning(steps);
    else if (data !== undefined) builder.add(head, data);
    else builder.addInline(head);
  }
  return builder.build();
}

function hostileBlocks(text, datamarked) {
  return [
    { type: "resource", uri: text, schema: "s", data: { content: text }, datamarked },
    { uri: "u", tags: text, pending: datamarked },
  ];
}

for (const { name, text, times = 1, results: want } of cases.texts) {
  test(`text: ${name}`, () => assert.deepEqual(results(text.repeat(times)), want));
}

for (const { name, blocks, result, blocks_again } of cases.builds) {
  test(`build: ${name}`, () => {
    const built = build(blocks);
    assert.equal(built, result);
    assert.deepEqual(parse(built).problems, []);
    assert.deepEqual(described(built), blocks_again);
  });
}

test("URIs are read as the crate reads them", () => {
  for (const { text, result } of cases.uris) {
    const uri = Am7Uri.tryParse(text);
    const read = uri && {
      text: uri.toString(),
      organization: uri.organization,
      objectType: uri.objectType ?? null,
      id: uri.id ?? null,
      isMedia: uri.isMedia,
      isVectorSearch: uri.isVectorSearch,
      q: uri.queryParam("q") ?? null,
      raw_q: uri.rawQueryParam("q") ?? null,
    };
    assert.deepEqual(read ?? null, result, text);
  }
});

test("the module and the crate agree on generated texts", () => {
  assert.ok(generated.length >= 500, `${generated.length} texts`);
  for (const [number, { text, results: want, built }] of generated.entries()) {
    assert.deepEqual(results(text), want, `line ${number + 1}: ${JSON.stringify(text)}`);
    assert.equal(build(hostileBlocks(text, number % 2 === 0)), built, `line ${number + 1}: ${JSON.stringify(text)}`);
  }
});
