// What the harness costs by itself, and how fast it is beside promptfoo on the same cases, in one run on one machine.
// `cargo xtask bench judge` runs it. Both talk to one scripted endpoint that answers at once.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { PROGRAM } from "./server.mjs";
import { root } from "./support.mjs";

const run = promisify(execFile);
const CASES = 100;
const REPETITIONS = 5;
const ROUNDS = 3;
const AT_A_TIME = 4;
const PROMPTFOO = join(root, "bench/peers/promptfoo/node_modules/.bin/promptfoo");

/** An endpoint with OpenAI's chat completions whose model always says "Four.". */
async function endpoint() {
  const state = { requests: 0 };
  const body = JSON.stringify({
    id: "c",
    object: "chat.completion",
    created: 0,
    model: "scripted",
    choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Four." } }],
    usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
  });
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      state.requests += 1;
      response.writeHead(200, { "content-type": "application/json" }).end(body);
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}/v1`;
  return { url, state, close: () => server.close(() => server.closeAllConnections()) };
}

async function timed(program, args, env, cwd) {
  const began = performance.now();
  await run(program, args, { cwd, env: { PATH: process.env.PATH, HOME: cwd, ...env }, maxBuffer: 1 << 28 });
  return performance.now() - began;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const folder = await mkdtemp(join(tmpdir(), "marquetry-bench-"));
const { url, state, close } = await endpoint();
try {
  const prompts = Array.from({ length: CASES }, (_, at) => `What is two and two? (${at})`);
  // JSON is YAML.
  await writeFile(
    join(folder, "cases.yaml"),
    JSON.stringify({
      agentConfig: { provider: "custom", model: "scripted", baseUrl: url },
      cases: prompts.map((prompt) => ({ name: prompt, prompt, repetitions: REPETITIONS, expect: { answer: "Four." } })),
    }),
  );
  await writeFile(
    join(folder, "promptfooconfig.yaml"),
    JSON.stringify({
      prompts: ["{{prompt}}"],
      providers: [{ id: "openai:chat:scripted", config: { apiBaseUrl: url, apiKey: "k" } }],
      tests: prompts.map((prompt) => ({ vars: { prompt }, assert: [{ type: "equals", value: "Four." }] })),
    }),
  );
  const ours = [];
  const alone = [];
  const theirs = [];
  const quiet = { PROMPTFOO_DISABLE_TELEMETRY: "1", PROMPTFOO_DISABLE_UPDATE: "1", PROMPTFOO_SELF_HOSTED: "1" };
  for (let round = 0; round < ROUNDS; round++) {
    const report = join(folder, "report.json");
    const test = (jobs) => ["test", "cases.yaml", "--database", `d${round}-${jobs}.db`, "--jobs", `${jobs}`, "--report", `json=${report}`];
    alone.push((await timed(PROGRAM, test(1), {}, folder)) / (CASES * REPETITIONS));
    ours.push(await timed(PROGRAM, test(AT_A_TIME), {}, folder));
    const passed = (await readFile(report, "utf8")).match(/"status": ?"passed"/g)?.length ?? 0;
    if (passed < CASES * REPETITIONS) throw new Error(`only ${passed} of our results passed`);
    if (!existsSync(PROMPTFOO)) continue;
    const before = state.requests;
    const args = ["eval", "-c", "promptfooconfig.yaml", "--repeat", `${REPETITIONS}`, "-j", `${AT_A_TIME}`, "--no-cache", "--no-progress-bar", "--no-table", "-o", "out.json"];
    theirs.push(await timed(PROMPTFOO, args, quiet, folder));
    const asked = state.requests - before;
    if (asked !== CASES * REPETITIONS) throw new Error(`promptfoo asked ${asked} times`);
  }
  console.log(`${CASES} cases x ${REPETITIONS} repetitions, ${ROUNDS} rounds, medians; ${cpus()[0].model.trim()}, ${cpus().length} processors`);
  console.log(`own cost of a trial (one at a time, with start, endpoint and database): ${median(alone).toFixed(2)} ms; the budget is 5 ms`);
  console.log(`marquetry test, ${AT_A_TIME} at a time: ${median(ours).toFixed(0)} ms`);
  let failed = median(alone) > 5;
  if (theirs.length === 0) {
    console.log(`promptfoo: skipped; npm install in bench/peers/promptfoo puts it there`);
    failed ||= process.env.CI === "true";
  } else {
    const times = median(theirs) / median(ours);
    console.log(`promptfoo eval, ${AT_A_TIME} at a time: ${median(theirs).toFixed(0)} ms, ${times.toFixed(1)} times as long; at least 5 are asked for`);
    failed ||= times < 5;
  }
  process.exitCode = failed ? 1 : 0;
} finally {
  close();
  await rm(folder, { recursive: true, force: true });
}
