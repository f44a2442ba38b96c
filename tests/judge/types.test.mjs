// The types of the TypeScript SDK fit its examples, and the examples compile as a user would compile them.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { SDK, TSC, compile } from "./compile.mjs";
import { folder, missing } from "./support.mjs";

test("the examples of the SDK are typed", { skip: missing(TSC) }, async (t) => {
  const examples = ["basic.ts", "suite.ts", "configuration.ts"].map((name) => join(SDK, "examples", name));
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
