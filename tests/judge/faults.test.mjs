// Models that fail, over each wire: each fault ends as a stored result with the status `error` and
// a reason that tells what to do.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";
import { MCPTestSDK } from "../../sdk/typescript/index.js";
import { WIRES, environment, startModel } from "./model.mjs";
import { AIMOCK, FILESYSTEM, PROGRAM, childrenOf, fileServer, run, testServer, until } from "./server.mjs";
import { folder, missing } from "./support.mjs";

const skip = missing(PROGRAM, AIMOCK, FILESYSTEM);

const failure =
  (status, rest = {}) =>
  () => ({ error: { message: `fault ${status}` }, status, ...rest });

/** What a model answers to a prompt with these words, and what the reason must say. */
const FAULTS = {
  "no key": { answer: failure(401), reason: /does not accept the key \(status 401\): fault 401/, requests: 1 },
  "too many": {
    answer: failure(429, { retryAfter: 0 }),
    reason: /limits the rate of requests \(status 429\): fault 429; try again later, or with fewer requests at a time/,
    requests: 4,
  },
  "far too many": {
    answer: failure(429, { retryAfter: 3600 }),
    reason: /limits the rate of requests \(status 429\): fault 429; try again later/,
    requests: 1,
  },
  "out of order": { answer: failure(500), reason: /fails \(status 500\): fault 500/, requests: 4 },
  "cut off": {
    answer: () => ({ content: "This answer is cut off in its middle." }),
    options: { truncateAfterChunks: 2, chunkSize: 5 },
    stream: true,
    reason: /failed to call the agent's model: .*(broke off|cannot be reached)/,
  },
  endless: {
    answer: () => ({ toolCalls: [{ name: "list_allowed_directories", arguments: "{}" }] }),
    limits: { maxTurns: 3 },
    reason: /limits\.maxTurns \(3\): raise it, or check whether the model repeats its calls/,
    requests: 3,
    calls: 3,
  },
  invented: {
    answer: () => ({ toolCalls: [{ name: "no_such_tool", arguments: "[1]" }] }),
    limits: { maxToolCalls: 2 },
    reason: /limits\.maxToolCalls \(2\)/,
    calls: 2,
  },
};

async function world(t, args = []) {
  const judge = () => ({ content: "Well done!" });
  const mock = await startModel(t, { judge, scripts: [{ when: /good/, answer: "Done." }] });
  for (const [words, { answer, options }] of Object.entries(FAULTS)) {
    mock.on({ userMessage: `Prompt: ${words}.` }, answer, options);
  }
  const home = await folder(t);
  const server = await testServer(t, home, { args, env: environment(mock) });
  return { mock, home, sdk: new MCPTestSDK(server.url), ...server };
}

for (const { provider, model } of WIRES) {
  test(`faults of a model on the wire of ${provider} are stored results with advice`, { skip }, async (t) => {
    const { mock, sdk, home, child } = await world(t);
    const results = await Promise.all(
      Object.entries(FAULTS).map(async ([words, { stream, limits }]) => {
        const result = await sdk.runTest({
          name: words,
          prompt: `Prompt: ${words}.`,
          expect: { answer: "Done." },
          limits,
          serverConfigs: [fileServer(home)],
          agentConfig: { provider, model, stream },
        });
        return [words, result];
      }),
    );
    for (const [words, result] of results) {
      const { reason, requests, calls = 0 } = FAULTS[words];
      assert.deepEqual([words, result.status, result.success], [words, "error", false], result.error);
      assert.match(result.error, reason);
      assert.match(result.verdict.reasoning, /^Test execution failed: /);
      assert.equal(result.toolCalls.length, calls, words);
      const asked = mock
        .getRequests()
        .filter(({ body }) => JSON.stringify(body.messages).includes(`Prompt: ${words}.`));
      if (requests) assert.equal(asked.length, requests, words);
    }
    const stored = [];
    for await (const { testCase } of sdk.allResults({ status: "error", limit: 3 })) stored.push(testCase.name);
    assert.deepEqual(stored.sort(), Object.keys(FAULTS).sort());
    assert.equal((await sdk.health()).connections, 0);
    await until("children have ended", async () => (await childrenOf(child.pid)).length === 0);
  });

  test(`a judge that answers no JSON on the wire of ${provider} is an error, not a failed test`, {
    skip,
  }, async (t) => {
    const { sdk } = await world(t);
    const settings = { provider, model, stream: true };
    const result = await sdk.runTest({ name: "judge", prompt: "good", serverConfigs: [], judgeConfig: settings });
    assert.equal(result.status, "error");
    assert.match(result.error, /judge.*not a JSON object/s);
    assert.equal((await sdk.results({ status: "error" })).items[0].id, result.id);
  });
}

test("the operator of a test server bounds the limits of tests", { skip }, async (t) => {
  const { sdk, home } = await world(t, ["--limit", "maxTurns=2"]);
  const settings = {
    expect: { answer: "Done." },
    serverConfigs: [fileServer(home)],
    agentConfig: { provider: "openai", model: "gpt-4" },
  };
  const result = await sdk.runTest({
    name: "endless",
    prompt: "Prompt: endless.",
    limits: { maxTurns: 90 },
    ...settings,
  });
  assert.equal(result.status, "error");
  assert.match(result.error, /limits\.maxTurns \(2\)/);
  const { code, stderr } = await run(["test-server", "--limit", "maxTurn=2"]);
  assert.equal(code, 2);
  assert.match(stderr, /unknown field `maxTurn`, expected one of `maxTurns`/);
});

/**
 * A provider with the wire of OpenAI that limits the rate, with these headers, until it has refused
 * so many requests.
 */
async function limiter(t, refusals, headers) {
  const times = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      times.push(Date.now());
      response.setHeader("content-type", "application/json");
      if (times.length <= refusals) {
        response.writeHead(429, headers);
        response.end(JSON.stringify({ error: { message: "slow down" } }));
        return;
      }
      const message = { role: "assistant", content: "Done." };
      response.end(JSON.stringify({ model: "m", choices: [{ index: 0, finish_reason: "stop", message }] }));
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close(() => server.closeAllConnections()));
  return { times, baseUrl: `http://127.0.0.1:${server.address().port}/v1` };
}

for (const [how, headers, least] of [
  ["the wait that it asks for", { "retry-after": "1" }, 1000],
  ["a wait of its own", {}, 500],
]) {
  test(`a busy model is asked again after ${how}`, { skip }, async (t) => {
    const { sdk } = await world(t);
    const { times, baseUrl } = await limiter(t, 1, headers);
    const agentConfig = { provider: "custom", model: "m", baseUrl };
    const result = await sdk.runTest({
      name: "busy",
      prompt: "x",
      expect: { answer: "Done." },
      serverConfigs: [],
      agentConfig,
    });
    assert.equal(result.status, "passed", result.error);
    assert.equal(times.length, 2);
    assert.ok(times[1] - times[0] >= least, `${times[1] - times[0]} ms`);
  });
}

test("a busy model without a wait of its own is given up after three retries", { skip, timeout: 20_000 }, async (t) => {
  const { sdk } = await world(t);
  const { times, baseUrl } = await limiter(t, 100, {});
  const agentConfig = { provider: "custom", model: "m", baseUrl };
  const result = await sdk.runTest({
    name: "busy",
    prompt: "x",
    expect: { answer: "Done." },
    serverConfigs: [],
    agentConfig,
  });
  assert.equal(result.status, "error");
  assert.match(result.error, /status 429\): slow down; try again later/);
  assert.equal(times.length, 4);
});

test("a client that leaves has its result stored, and neither a connection nor a child is left", {
  skip,
}, async (t) => {
  const mock = await startModel(t, { scripts: [{ when: /slow/ }], delay: 30_000 });
  const home = await folder(t);
  const { url, child } = await testServer(t, home, { env: environment(mock) });
  const sdk = new MCPTestSDK(url);
  const leave = new AbortController();
  const run = fetch(`${url}/api/test/run`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      name: "left",
      prompt: "slow",
      expectedTools: ["list_directory"],
      serverConfigs: [fileServer(home)],
      agentConfig: { provider: "openai", model: "m" },
    }),
    signal: leave.signal,
  });
  const failed = assert.rejects(run, { name: "AbortError" });
  await until("the model is asked", mock.asked);
  assert.equal((await sdk.health()).connections, 1);
  assert.ok((await childrenOf(child.pid)).length > 0);
  leave.abort();
  await failed;
  const result = await until("the result is stored", async () => (await sdk.results()).items[0]);
  assert.deepEqual([result.testCase.name, result.status], ["left", "error"]);
  assert.match(
    result.error,
    /its client closed the connection before the result; run it again, and wait for the answer/,
  );
  assert.equal((await sdk.health()).connections, 0);
  await until("children have ended", async () => (await childrenOf(child.pid)).length === 0);
});

test("a server that is asked to stop stores the tests that run, and leaves no child", { skip }, async (t) => {
  const mock = await startModel(t, { scripts: [{ when: /slow/ }], delay: 30_000 });
  const home = await folder(t);
  const { url, child, ended } = await testServer(t, home, { env: environment(mock) });
  const sdk = new MCPTestSDK(url);
  const agentConfig = { provider: "openai", model: "m" };
  const testCase = {
    name: "stopped",
    prompt: "slow",
    expect: { answer: "x" },
    serverConfigs: [fileServer(home)],
    agentConfig,
  };
  const run = sdk.runTest(testCase).catch((error) => error);
  await until("the model is asked", mock.asked);
  const children = await childrenOf(child.pid);
  assert.ok(children.length > 0);
  child.kill("SIGTERM");
  await ended;
  await run;
  for (const pid of children) await assert.rejects(readFile(`/proc/${pid}/stat`));
  const again = await testServer(t, home, { env: environment(mock) });
  const { items } = await new MCPTestSDK(again.url).results();
  assert.deepEqual(
    items.map(({ testCase: { name }, status }) => [name, status]),
    [["stopped", "error"]],
  );
  assert.match(items[0].error, /the test server stopped; start it, and run the test again/);
});
