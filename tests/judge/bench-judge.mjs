// What the harness costs by itself, and how fast it is beside promptfoo on the same cases, in one run on one machine.
// `cargo xtask bench judge` runs it. Both talk to one scripted endpoint and one MCP server that answer at once.
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
const MOST_MS = 5;
const LEAST_TIMES = 5;
const PROMPTFOO = join(root, "bench/peers/promptfoo/node_modules/.bin/promptfoo");

const text = (content) => ({ role: "assistant", content });
const call = { id: "c1", type: "function", function: { name: "add", arguments: '{"a":2,"b":2}' } };

/** What the models say, by their names. */
const MODELS = {
  scripted: () => text("Four."),
  // Calls the tool once.
  caller: ({ messages }) =>
    messages.at(-1).role === "tool" ? text("Four.") : { role: "assistant", content: null, tool_calls: [call] },
  // Says yes to every item of our checklist.
  judge: ({ messages }) => {
    const { items } = JSON.parse(messages.findLast(({ role }) => role === "user").content);
    return text(
      JSON.stringify({
        items: items.map(({ id }) => ({ id, evidence: "call 1", answer: "yes" })),
        reasoning: "Right.",
        suggestions: "",
      }),
    );
  },
  // Says yes to promptfoo's rubric.
  rubric: () => text('{"reason":"Right.","pass":true,"score":1}'),
};

const ADD = {
  name: "add",
  description: "Adds two numbers",
  inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
};

/** What the MCP server says, by method. */
const METHODS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "sums", version: "1" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [ADD] }),
  "tools/call": ({ arguments: { a, b } }) => ({ content: [{ type: "text", text: `${a + b}` }] }),
};

/**
 * An MCP server at `/mcp`, and OpenAI's chat completions everywhere else. Counts the answers of
 * each model and the calls of the tool.
 */
async function endpoint() {
  const counts = {};
  const count = (name) => (counts[name] = (counts[name] ?? 0) + 1);
  const complete = (request) => {
    count(request.model);
    return {
      id: "c",
      object: "chat.completion",
      created: 0,
      model: request.model,
      choices: [{ index: 0, finish_reason: "stop", message: MODELS[request.model](request) }],
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    };
  };
  const serve = ({ id, method, params }) => {
    if (id === undefined) return undefined;
    count(method);
    const answer = METHODS[method];
    return {
      jsonrpc: "2.0",
      id,
      ...(answer ? { result: answer(params) } : { error: { code: -32601, message: `no method ${method}` } }),
    };
  };
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    if (request.method !== "POST") return response.writeHead(405).end();
    const message = JSON.parse(Buffer.concat(parts));
    const answer = request.url === "/mcp" ? serve(message) : complete(message);
    if (answer === undefined) return response.writeHead(202).end();
    return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}`;
  return { url, counts, close: () => server.close(() => server.closeAllConnections()) };
}

async function timed(program, args, env, cwd) {
  const began = performance.now();
  await run(program, args, { cwd, env: { PATH: process.env.PATH, HOME: cwd, ...env }, maxBuffer: 1 << 28 });
  return performance.now() - began;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** The kinds of trials: the cases of both programs, and how often each trial asks for what. */
function kinds(url) {
  const prompts = Array.from({ length: CASES }, (_, at) => `What is two and two? (${at})`);
  const agent = (model) => ({ provider: "custom", model, baseUrl: `${url}/v1` });
  const peer = (model, more) => ({
    id: `openai:chat:${model}`,
    config: { apiBaseUrl: `${url}/v1`, apiKey: "k", ...more },
  });
  const theirs = (provider, ...assert) => ({
    prompts: ["{{prompt}}"],
    providers: [provider],
    tests: prompts.map((prompt) => ({ vars: { prompt }, assert })),
  });
  const ours = (model, more) => ({
    agentConfig: agent(model),
    cases: prompts.map((prompt) => ({ name: prompt, prompt, repetitions: REPETITIONS, ...more })),
  });
  return [
    {
      name: "one answer, compared with a text",
      ours: ours("scripted", { expect: { answer: "Four." } }),
      theirs: theirs(peer("scripted"), { type: "equals", value: "Four." }),
      asked: { scripted: 1 },
      askedTheirs: { scripted: 1 },
    },
    {
      name: "an MCP server, a call and a vote",
      ours: {
        ...ours("caller", {
          expectedTools: [{ name: "add", arguments: { a: 2, b: 2 } }],
          serverConfigs: [{ type: "http", name: "sums", url: `${url}/mcp` }],
        }),
        judgeConfig: { ...agent("judge"), votes: 1 },
      },
      // promptfoo connects once, and ends a trial with the answer of the tool.
      theirs: theirs(peer("caller", { mcp: { enabled: true, server: { name: "sums", url: `${url}/mcp` } } }), {
        type: "llm-rubric",
        value: "The tool add was called with 2 and 2",
        provider: peer("rubric"),
      }),
      asked: { caller: 2, "tools/call": 1, judge: 1 },
      askedTheirs: { caller: 1, "tools/call": 1, rubric: 1 },
    },
  ];
}

/**
 * Runs one kind with both programs in turns. Returns the medians in ms: a trial alone, ours, and
 * theirs if promptfoo is installed.
 */
async function measured(kind, counts, folder) {
  await writeFile(join(folder, "cases.yaml"), JSON.stringify(kind.ours)); // JSON is YAML.
  await writeFile(join(folder, "promptfooconfig.yaml"), JSON.stringify(kind.theirs));
  const trials = CASES * REPETITIONS;
  // Each trial is asked for as often as it needs: a program that leaves work out is not faster.
  const counted = async (wanted, program, args, env) => {
    const before = { ...counts };
    const took = await timed(program, args, env, folder);
    for (const [name, times] of Object.entries(wanted)) {
      const asked = counts[name] - (before[name] ?? 0);
      if (asked !== times * trials)
        throw new Error(`${program} asked ${asked} times for ${name}, not ${times * trials}`);
    }
    return took;
  };
  const [alone, ours, theirs] = [[], [], []];
  const quiet = { PROMPTFOO_DISABLE_TELEMETRY: "1", PROMPTFOO_DISABLE_UPDATE: "1", PROMPTFOO_SELF_HOSTED: "1" };
  for (let round = 0; round < ROUNDS; round++) {
    const report = join(folder, "report.json");
    for (const [jobs, times] of [
      [1, alone],
      [AT_A_TIME, ours],
    ]) {
      const database = join(folder, `${kind.asked.judge ? "votes" : "texts"}-${round}-${jobs}.db`);
      times.push(
        await counted(kind.asked, PROGRAM, [
          "test",
          "cases.yaml",
          "--database",
          database,
          "--jobs",
          `${jobs}`,
          "--report",
          `json=${report}`,
        ]),
      );
      const passed = (await readFile(report, "utf8")).match(/"status": ?"passed"/g)?.length ?? 0;
      if (passed < trials) throw new Error(`only ${passed} of our results passed`);
    }
    if (!existsSync(PROMPTFOO)) continue;
    const args = [
      "eval",
      "-c",
      "promptfooconfig.yaml",
      "--repeat",
      `${REPETITIONS}`,
      "-j",
      `${AT_A_TIME}`,
      "--no-cache",
      "--no-progress-bar",
      "--no-table",
      "-o",
      "out.json",
    ];
    theirs.push(await counted(kind.askedTheirs, PROMPTFOO, args, quiet));
  }
  return { trial: median(alone) / trials, ours: median(ours), theirs: theirs.length ? median(theirs) : undefined };
}

const folder = await mkdtemp(join(tmpdir(), "marquetry-bench-"));
const { url, counts, close } = await endpoint();
try {
  console.log(
    `${CASES} cases x ${REPETITIONS} repetitions, ${ROUNDS} rounds, medians; ${cpus()[0].model.trim()}, ${cpus().length} processors`,
  );
  let failed = false;
  for (const kind of kinds(url)) {
    const { trial, ours, theirs } = await measured(kind, counts, folder);
    console.log(`\n${kind.name}`);
    console.log(
      `  a trial, one at a time, with start, endpoints and database: ${trial.toFixed(2)} ms; at most ${MOST_MS} are asked for`,
    );
    console.log(`  marquetry test, ${AT_A_TIME} at a time: ${ours.toFixed(0)} ms`);
    failed ||= trial > MOST_MS;
    if (theirs === undefined) {
      console.log(`  promptfoo: skipped; npm install in bench/peers/promptfoo puts it there`);
      failed ||= process.env.CI === "true";
    } else {
      const times = theirs / ours;
      console.log(
        `  promptfoo eval, ${AT_A_TIME} at a time: ${theirs.toFixed(0)} ms, ${times.toFixed(1)} times as long; at least ${LEAST_TIMES} are asked for`,
      );
      failed ||= times < LEAST_TIMES;
    }
  }
  process.exitCode = failed ? 1 : 0;
} finally {
  close();
  await rm(folder, { recursive: true, force: true });
}
