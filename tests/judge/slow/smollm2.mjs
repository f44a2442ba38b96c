// A real model as agent and as judge: it proves wires and structure, never judgement. It takes minutes and is not a
// step of `ci`. After tests/judge/install, slow/install and `cargo build`: CI=true node --test slow/smollm2.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { MCPTestSDK } from "../../../sdk/typescript/index.js";
import { FILESYSTEM, PROGRAM, fileServer, testServer } from "../server.mjs";
import { folder, missing } from "../support.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const PYTHON = join(here, ".venv/bin/python");
const skip = missing(PROGRAM, FILESYSTEM, PYTHON);

/** Starts the model; it ends with its standard input. */
async function model(t) {
  const child = spawn(PYTHON, [join(here, "serve.py")], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((done) => child.on("exit", done));
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return new Promise((found, failed) => {
    child.stdout.once("data", (chunk) => found(`${String(chunk).trim()}/v1`));
    ended.then((code) => failed(new Error(`the model ended with ${code}`)));
  });
}

for (const provider of ["openai", "anthropic"]) {
  test(`SmolLM2 as agent and as judge over the wire of ${provider}`, { skip, timeout: 900_000 }, async (t) => {
    const url = await model(t);
    const home = await folder(t);
    await writeFile(join(home, "a.txt"), "Four.");
    const env = { OPENAI_BASE_URL: url, OPENAI_API_KEY: "none", ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "none" };
    const { url: server } = await testServer(t, home, { env });
    const settings = { provider, model: "smollm2", temperature: 0, maxTokens: 200, seed: 1 };
    const result = await new MCPTestSDK(server).runTest({
      name: "a real model",
      prompt: "What is two and two? Answer in one word.",
      serverConfigs: [fileServer(home)],
      // Few tools, and few items: the window of the model is small.
      tools: ["list_allowed_directories"],
      checklist: ["The final answer is a number."],
      agentConfig: settings,
      judgeConfig: { ...settings, votes: 1, maxVotes: 1 },
      limits: { maxTurns: 4, timeoutMs: 800_000 },
    });
    t.diagnostic(`${result.status}: ${result.error ?? result.verdict.reasoning}`);
    const [trial] = result.trials;
    assert.ok(trial.turns.length >= 1, JSON.stringify(trial));
    assert.ok(
      trial.usage.inputTokens > 0 && trial.usage.outputTokens > 0 && !trial.usage.estimated,
      JSON.stringify(trial.usage),
    );
    const { confidence, toolAccuracy } = result.verdict;
    assert.ok(confidence >= 0 && confidence <= 1 && toolAccuracy >= 0 && toolAccuracy <= 1);
    if (result.status === "error") {
      // So small a model may break the form of an answer; the judge was asked all the same.
      assert.match(result.error, /^the judge smollm2 gave no valid answer in 3 attempts/);
    } else {
      assert.equal(trial.votes.length, 1);
    }
    const { items } = await new MCPTestSDK(server).results();
    assert.deepEqual(
      items.map(({ id }) => id),
      [result.id],
    );
  });
}
