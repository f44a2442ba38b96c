// The types of the TypeScript SDK fit its examples, and the examples compile as a user would compile them.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { SDK, TSC, compile } from "./compile.mjs";
import { folder, missing } from "./support.mjs";

test("the examples of the SDK are typed", { skip: missing(TSC) }, async (t) => {
  const names = ["basic.ts", "suite.ts", "configuration.ts", "context.ts"];
  const examples = names.map((name) => join(SDK, "examples", name));
  assert.equal(await compile(await folder(t), examples), "");
});

test("wrong use of the SDK is an error of the types", { skip: missing(TSC) }, async (t) => {
  const to = await folder(t);
  const wrong = join(to, "wrong.ts");
  await writeFile(
    wrong,
    `import { MCPTestSDK } from "@marquetry/test-sdk";
     const sdk = new MCPTestSDK(3002);
     const result = await sdk.runTest({ name: "no prompt" });
     result.verdict.confidence.trim();
     await sdk.runTest({ name: "n", prompt: "p", serverConfigs: [{ type: "stdio", url: "http://127.0.0.1" }] });
     await sdk.results({ status: "green" });
     await sdk.runTest({ name: "n", prompt: "p", expectedTool: ["read"] });
     result.toolCalls[0]?.parameters.path;`,
  );
  const messages = await compile(to, [wrong]);
  const lines = [...messages.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line));
  assert.deepEqual([...new Set(lines)], [2, 3, 4, 5, 6, 7, 8], messages);
});

test("wrong use of context blocks is an error of the types", { skip: missing(TSC) }, async (t) => {
  const to = await folder(t);
  const wrong = join(to, "wrong.ts");
  await writeFile(
    wrong,
    `import { LegacyTokenAdapter, McpContextBuilder, McpContextFilter, parse } from "@marquetry/test-sdk/context-blocks";
     parse(undefined);
     new McpContextFilter({ showEphemral: true });
     new McpContextBuilder().addResource("u", "s", {}, { trust: "server" });
     new McpContextBuilder().add({ type: "x" }, {});
     parse("").blocks[0]?.uri.trim();
     LegacyTokenAdapter.upgrade(1);`,
  );
  const messages = await compile(to, [wrong]);
  const lines = [...messages.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line));
  assert.deepEqual([...new Set(lines)], [2, 3, 4, 5, 6, 7], messages);
});

test("the types of context blocks name what the module exports", async () => {
  const module = await import(join(SDK, "context-blocks/index.js"));
  const types = await readFile(join(SDK, "context-blocks/index.d.ts"), "utf8");
  const declared = Array.from(types.matchAll(/^export declare (?:class|function|const) (\w+)/gm), ([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(module).sort());
});
