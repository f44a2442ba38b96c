// The JavaScript tests of seed 003, each under its id, and what JavaScript alone can do to the module.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  LegacyTokenAdapter,
  McpContextBuilder,
  McpContextFilter,
  McpContextParser,
  neutralize,
  parse,
} from "@marquetry/test-sdk/context-blocks";

const EPHEMERAL = 'Hello <mcp:context type="resource" uri="am7://x" ephemeral="true">data</mcp:context> World';

// seed: 003/McpContextParser.js.parses resource context block
test("McpContextParser parses resource context block", () => {
  const contexts = McpContextParser.parse(`
    <mcp:context type="resource" uri="am7://test/123" ephemeral="true">
    {"schema": "test", "data": {"key": "value"}}
    </mcp:context>
  `);
  assert.equal(contexts.length, 1);
  assert.equal(contexts[0].type, "resource");
  assert.equal(contexts[0].uri, "am7://test/123");
  assert.equal(contexts[0].ephemeral, true);
  assert.equal(contexts[0].data.schema, "test");
});

// seed: 003/McpContextParser.js.parses inline resource tag
test("McpContextParser parses inline resource tag", () => {
  const contexts = McpContextParser.parse(
    'Here is <mcp:resource uri="am7://media/img-1" tags="portrait,photo" /> an image',
  );
  assert.equal(contexts.length, 1);
  assert.equal(contexts[0].inline, true);
  assert.equal(contexts[0].uri, "am7://media/img-1");
  assert.deepEqual(contexts[0].tags, ["portrait", "photo"]);
});

// seed: 003/McpContextParser.js.parses multiple contexts in order
test("McpContextParser parses multiple contexts in order", () => {
  const contexts = McpContextParser.parse(`
    <mcp:context type="a" uri="u1">1</mcp:context>
    text
    <mcp:context type="b" uri="u2">2</mcp:context>
  `);
  assert.equal(contexts.length, 2);
  assert.equal(contexts[0].type, "a");
  assert.equal(contexts[1].type, "b");
  assert.ok(contexts[0].start < contexts[1].start);
});

// seed: 003/McpContextParser.js.handles malformed JSON gracefully
test("McpContextParser handles malformed JSON gracefully", () => {
  const contexts = McpContextParser.parse('<mcp:context type="x">not valid json</mcp:context>');
  assert.equal(contexts.length, 1);
  assert.equal(contexts[0].data.raw, "not valid json");
});

// seed: 003/McpContextParser.js.returns empty array for no contexts
test("McpContextParser returns empty array for no contexts", () => {
  assert.equal(McpContextParser.parse("Just plain text").length, 0);
});

// seed: 003/McpContextFilter.js.removes ephemeral contexts by default
test("McpContextFilter removes ephemeral contexts by default", () => {
  const result = new McpContextFilter().filter(EPHEMERAL);
  assert.equal(result.content, "Hello  World");
  assert.equal(result.contexts.citations.length, 0);
});

// seed: 003/McpContextFilter.js.shows ephemeral when configured
test("McpContextFilter shows ephemeral when configured", () => {
  const result = new McpContextFilter({ showEphemeral: true }).filter(EPHEMERAL);
  assert.ok(result.content.includes("<mcp:context"));
});

// seed: 003/McpContextFilter.js.categorizes citations correctly
test("McpContextFilter categorizes citations correctly", () => {
  const result = new McpContextFilter().filter(
    '<mcp:context type="resource" uri="am7://vector/citations/123">data</mcp:context>',
  );
  assert.equal(result.contexts.citations.length, 1);
});

// seed: 003/McpContextFilter.js.categorizes reminders correctly
test("McpContextFilter categorizes reminders correctly", () => {
  const result = new McpContextFilter().filter(
    '<mcp:context type="resource" uri="am7://reminder/user-1" ephemeral="true">data</mcp:context>',
  );
  assert.equal(result.contexts.reminders.length, 1);
});

// seed: 003/McpContextFilter.js.renders inline images when enabled
test("McpContextFilter renders inline images when enabled", () => {
  const result = new McpContextFilter({ renderResources: true }).filter(
    'Image: <mcp:resource uri="am7://media/img-1" tags="photo" />',
  );
  assert.ok(result.content.includes("<img"));
  assert.ok(result.content.includes("data-mcp-uri"));
});

// seed: 003/McpContextFilter.js.preserves non-context text
test("McpContextFilter preserves non-context text", () => {
  const result = new McpContextFilter().filter('Start <mcp:context type="x" ephemeral="true">hidden</mcp:context> End');
  assert.equal(result.content.trim(), "Start  End");
});

// seed: 003/LegacyTokenAdapter.js.converts ID+tags token to MCP resource
test("LegacyTokenAdapter converts ID+tags token to MCP resource", () => {
  assert.equal(
    LegacyTokenAdapter.upgrade("${image.abc-123.portrait,fantasy}"),
    '<mcp:resource uri="am7://media/abc-123" tags="portrait,fantasy" />',
  );
});

// seed: 003/LegacyTokenAdapter.js.converts tags-only token to pending MCP resource
test("LegacyTokenAdapter converts tags-only token to pending MCP resource", () => {
  assert.equal(
    LegacyTokenAdapter.upgrade("${image.portrait,character}"),
    '<mcp:resource uri="am7://media/pending" tags="portrait,character" resolve="true" />',
  );
});

// seed: 003/LegacyTokenAdapter.js.handles multiple tokens in content
test("LegacyTokenAdapter handles multiple tokens in content", () => {
  const upgraded = LegacyTokenAdapter.upgrade("Here is ${image.abc.tag1} and ${image.def.tag2}");
  assert.ok(upgraded.includes("am7://media/abc"));
  assert.ok(upgraded.includes("am7://media/def"));
});

// seed: 003/LegacyTokenAdapter.js.leaves non-token text unchanged
test("LegacyTokenAdapter leaves non-token text unchanged", () => {
  const text = "Just regular text without tokens";
  assert.equal(LegacyTokenAdapter.upgrade(text), text);
});

// seed: 003/LegacyTokenAdapter.js.converts MCP resource back to legacy token
test("LegacyTokenAdapter converts MCP resource back to legacy token", () => {
  assert.equal(
    LegacyTokenAdapter.downgrade('<mcp:resource uri="am7://media/xyz-789" tags="portrait,photo" />'),
    "${image.xyz-789.portrait,photo}",
  );
});

// seed: 003/LegacyTokenAdapter.js.converts pending MCP resource to tags-only token
test("LegacyTokenAdapter converts pending MCP resource to tags-only token", () => {
  assert.equal(
    LegacyTokenAdapter.downgrade('<mcp:resource uri="am7://media/pending" tags="portrait" />'),
    "${image.portrait}",
  );
});

// seed: 003/LegacyTokenAdapter.js.upgrade then downgrade preserves ID token
test("LegacyTokenAdapter upgrade then downgrade preserves ID token", () => {
  const original = "${image.abc-123.portrait,fantasy}";
  assert.equal(LegacyTokenAdapter.downgrade(LegacyTokenAdapter.upgrade(original)), original);
});

test("halves of surrogate pairs are built as U+FFFD, as an encoder of UTF-8 would write them", () => {
  const built = new McpContextBuilder()
    .addResource("u\ud800", "s\udc00", { "k\ud800": ["\udc00x", "\\ud800 is text", "😀"] }, { datamarked: true })
    .build();
  const [block] = parse(built).blocks;
  assert.equal(block.uri, "u\ufffd");
  assert.deepEqual(block.payload(), { schema: "s\ufffd", data: { "k\ufffd": ["\ufffdx", "\\ud800 is text", "😀"] } });
});

test("what is not text, data or an option is refused", () => {
  const builder = new McpContextBuilder();
  for (const wrong of [
    () => parse(undefined),
    () => neutralize(null),
    () => LegacyTokenAdapter.upgrade(1),
    () => new McpContextFilter({ showEphemral: true }),
    () => builder.addResource("u", "s", undefined),
    () => builder.addResource("u", "s", { n: 1n }),
    () => builder.addResource(1, "s", {}),
    () => builder.addResource("u", "s", {}, { trust: "server" }),
    () => builder.add({ type: "x", schema: "s", trust: "server" }, {}),
  ]) {
    assert.throws(wrong, TypeError, String(wrong));
  }
  assert.equal(builder.build(), "");
});

test("hostile text costs one pass", () => {
  const pieces = [
    "<mcp:context>",
    "<mcp:context a='",
    "<mcp:context ",
    "<mcp:resource>",
    "</mcp:context ",
    "<think>",
    '(Reminder: {"',
    "(Reminder: {",
    "(Reminder: [",
    "--- BEGIN CITATIONS ---",
    "${image.",
    "<mcp:resource><mcp:tags>",
    "<mcp:context ephemeral=true>x</mcp:context>y",
    "<mcp:context>x</mcp:context>y",
    "<mcp:context a=\t",
    `<mcp:context>${"[".repeat(1000)}`,
  ];
  for (const piece of pieces) {
    const text = piece.repeat(Math.ceil(200_000 / piece.length));
    const start = performance.now();
    parse(text);
    LegacyTokenAdapter.upgrade(text);
    LegacyTokenAdapter.downgrade(text);
    new McpContextFilter().filter(text);
    new McpContextFilter({ showEphemeral: true }).filter(text);
    neutralize(text);
    const duration = performance.now() - start;
    assert.ok(duration < 10_000, `${JSON.stringify(piece.slice(0, 40))}: ${duration} ms`);
  }
});
