// The behaviour that seed 004 describes, through the HTTP API, with a scripted model and the official file server.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { MCPTestSDK } from "../../sdk/typescript/index.js";
import { WIRES, environment, startModel, votes } from "./model.mjs";
import { AIMOCK, FILESYSTEM, PROGRAM, childrenOf, fileServer, testServer, until } from "./server.mjs";
import { folder, missing } from "./support.mjs";

const skip = missing(PROGRAM, AIMOCK, FILESYSTEM);

/** A server with a scripted model. */
async function world(t, model = {}, server = {}) {
  const mock = await startModel(t, model);
  const home = await folder(t);
  const env = { ...environment(mock), ...server.env };
  const running = await testServer(t, home, { args: server.args, env });
  return { mock, home, sdk: new MCPTestSDK(running.url), ...running };
}

/** The same, with a folder for the file server and a test that has a file written there. */
async function fileWorld(t, model = {}, server = {}) {
  const files = await folder(t);
  const writes = {
    when: /hello\.txt/,
    turns: [[["write_file", { path: join(files, "hello.txt"), content: "Hello, World!" }]]],
    answer: "I created hello.txt.",
  };
  const made = await world(t, { scripts: [writes], ...model }, server);
  const fileTest = (provider = "openai", rest = {}) => ({
    name: "File Creation Test",
    prompt: 'Create a file called hello.txt with the content "Hello, World!"',
    expectedTools: ["write_file"],
    serverConfigs: [fileServer(files)],
    judgeConfig: { provider, model: "m", temperature: 0.1, maxTokens: 1000, apiKey: "key-of-the-request" },
    ...rest,
  });
  return { ...made, files, fileTest };
}

const WAYS = [undefined, false, true];

for (const { provider, model, path, stream } of WIRES.flatMap((wire) => WAYS.map((stream) => ({ ...wire, stream })))) {
  // seed: 004/01
  // seed: 004/12
  // seed: 004/13
  // seed: 004/14
  test(`a test passes over the wire of ${provider}, stream: ${stream}`, { skip }, async (t) => {
    // Short pieces: names, arguments and answers come in several events.
    const { sdk, mock, files, fileTest } = await fileWorld(t, { options: { chunkSize: 5 } });
    const judgeConfig = { provider, model, temperature: 0.1, maxTokens: 1000, apiKey: "key-of-the-request", stream };
    const result = await sdk.runTest(fileTest(provider, { judgeConfig }));
    assert.equal(result.error, undefined);
    assert.equal(result.status, "passed");
    assert.equal(result.success, true);
    assert.deepEqual(
      result.toolCalls.map(({ toolName, serverId, success }) => ({ toolName, serverId, success })),
      [{ toolName: "write_file", serverId: "files", success: true }],
    );
    const [call] = result.toolCalls;
    assert.deepEqual(call.parameters, { path: join(files, "hello.txt"), content: "Hello, World!" });
    assert.ok(call.executionTimeMs >= 0 && Date.parse(call.timestamp) <= Date.now());
    const { passed, confidence, toolAccuracy, reasoning } = result.verdict;
    assert.deepEqual({ passed, confidence, toolAccuracy }, { passed: true, confidence: 1, toolAccuracy: 1 });
    assert.match(reasoning, /The judge says yes/);
    assert.equal(await readFile(join(files, "hello.txt"), "utf8"), "Hello, World!");
    const requests = mock.getRequests();
    assert.ok(requests.length >= 3, `${requests.length} requests`);
    assert.deepEqual([...new Set(requests.map((request) => request.path))], [path]);
    // Agent and judge are asked alike.
    assert.deepEqual([...new Set(requests.map(({ body }) => body.stream === true))], [stream === true]);
  });
}

// seed: 004/15
test("a test passes with a provider at a URL of the case", { skip }, async (t) => {
  const { sdk, mock, files, fileTest } = await fileWorld(t, {}, { env: { OPENAI_BASE_URL: "http://127.0.0.1:9/v1" } });
  const judgeConfig = {
    provider: "custom",
    model: "own-model",
    temperature: 0.1,
    maxTokens: 1000,
    apiKey: "key-of-the-request",
    baseUrl: `${mock.url}/v1`,
  };
  const result = await sdk.runTest(fileTest("custom", { judgeConfig }));
  assert.deepEqual([result.error, result.status], [undefined, "passed"]);
  assert.equal(await readFile(join(files, "hello.txt"), "utf8"), "Hello, World!");
  const requests = mock.getRequests();
  assert.deepEqual(
    [...new Set(requests.map(({ path, body }) => `${path} ${body.model}`))],
    ["/v1/chat/completions own-model"],
  );
  // Without a URL there is no such provider.
  const { baseUrl, ...without } = judgeConfig;
  const unknown = await sdk.runTest(fileTest("custom", { judgeConfig: without }));
  assert.match(unknown.error, /the provider custom needs a base URL/);
});

test("a judge that says no fails the test, and so does a tool that was not called", { skip }, async (t) => {
  const { sdk, fileTest } = await fileWorld(t, { judge: votes("no") });
  const denied = await sdk.runTest(fileTest());
  assert.equal(denied.status, "failed");
  assert.equal(denied.verdict.passed, false);
  const other = await sdk.runTest(fileTest("openai", { expectedTools: ["read_text_file"] }));
  assert.equal(other.status, "failed");
  assert.equal(other.verdict.toolAccuracy, 0);
});

// seed: 004/16
test("what cannot be run or judged is a stored result with the status error", { skip }, async (t) => {
  const { sdk, fileTest } = await fileWorld(t, { judge: () => ({ content: "no JSON" }) });
  const cases = {
    "no prompt": [fileTest("openai", { prompt: undefined }), /prompt/],
    "unknown provider": [fileTest("acme", {}), /provider/],
    "server that does not start": [
      fileTest("openai", { serverConfigs: [{ type: "stdio", command: "/nowhere/server" }] }),
      /nowhere/,
    ],
    "server that is not there": [
      fileTest("openai", { serverConfigs: [{ type: "http", url: "http://127.0.0.1:9/mcp" }] }),
      /127\.0\.0\.1:9/,
    ],
    "judge without JSON": [fileTest(), /judge/i],
  };
  const errors = {};
  for (const [name, [testCase, reason]] of Object.entries(cases)) {
    const result = await sdk.runTest({ ...testCase, name });
    assert.deepEqual([name, result.status, result.success], [name, "error", false]);
    assert.match(result.error, reason);
    const { passed, confidence, reasoning } = result.verdict;
    assert.deepEqual([passed, confidence, reasoning], [false, 0, `Test execution failed: ${result.error}`]);
    // Only the judge's failure comes after calls, which code has compared.
    assert.equal(result.verdict.toolAccuracy, name === "judge without JSON" ? 1 : 0);
    errors[name] = result.error;
  }
  const stored = {};
  for await (const { testCase, error } of sdk.allResults({ status: "error", limit: 2 })) stored[testCase.name] = error;
  assert.deepEqual(stored, errors);
});

test("only what is no test is refused", { skip }, async (t) => {
  const { url } = await world(t);
  const post = (body, headers = { "content-type": "application/json" }) =>
    fetch(`${url}/api/test/run`, { method: "POST", body, headers });
  for (const [status, body, headers] of [
    [400, "{"],
    [400, "[]"],
    [400, '{"name": "a", "prompts": "b"}'],
    [413, `"${"a".repeat(9 << 20)}"`],
    [415, "{}", { "content-type": "text/plain" }],
    [403, "{}", { "content-type": "application/json", origin: "http://127.0.0.1:1" }],
    [403, "{}", { "content-type": "application/json", origin: "null" }],
  ]) {
    const response = await post(body, headers);
    assert.equal(response.status, status, `${body.slice(0, 40)} ${JSON.stringify(headers)}`);
    assert.equal(typeof (await response.json()).error, "string");
  }
  const wrong = await fetch(`${url}/api/test/results?status=green`);
  assert.equal(wrong.status, 400);
  assert.match((await wrong.json()).error, /passed, failed or error/);
});

// seed: 004/02
test("health is as the seed has it", { skip }, async (t) => {
  const { url } = await world(t);
  const health = await (await fetch(`${url}/api/test/health`)).json();
  assert.deepEqual(Object.keys(health).sort(), ["connections", "database", "testing", "version"]);
  assert.deepEqual({ ...health, version: "" }, { testing: true, connections: 0, database: true, version: "" });
});

/** A model that says "Four.", and the keys that it was sent: aimock hides them in its journal. */
async function keyRecorder(t) {
  const keys = [];
  const server = createServer((request, response) => {
    keys.push(request.headers.authorization);
    const message = { role: "assistant", content: "Four." };
    request.resume().on("end", () => {
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({
          id: "1",
          object: "chat.completion",
          created: 0,
          model: "m",
          choices: [{ index: 0, finish_reason: "stop", message }],
        }),
      );
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close(() => server.closeAllConnections()));
  return { keys, port: server.address().port };
}

test("the key of the server goes before that of the request, and never to a URL of the request", {
  skip,
}, async (t) => {
  const { keys, port } = await keyRecorder(t);
  const env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
  const { sdk } = await world(t, {}, { env });
  const ask = async (agentConfig) => {
    keys.length = 0;
    const asked = { provider: "openai", model: "m", ...agentConfig };
    return sdk.runTest({
      name: "keys",
      prompt: "Two and two?",
      expect: { answer: "Four." },
      agentConfig: asked,
      serverConfigs: [],
    });
  };
  assert.equal((await ask({ apiKey: "own" })).status, "passed");
  assert.deepEqual(keys, ["Bearer key-of-the-server"]);
  // Another spelling of the same address is a URL of the request.
  const baseUrl = `http://localhost:${port}/v1`;
  assert.equal((await ask({ apiKey: "own", baseUrl })).status, "passed");
  assert.deepEqual(keys, ["Bearer own"]);
  const { status, error } = await ask({ baseUrl });
  assert.equal(status, "error");
  assert.match(error, /key/i);
  assert.deepEqual(keys, []);
});

test("keys are neither in results nor in the database nor in the log", { skip }, async (t) => {
  const { sdk, home, fileTest, said, url } = await fileWorld(t);
  const env = { SECRET: "secret-of-the-environment" };
  const result = await sdk.runTest(fileTest("openai", { serverConfigs: [{ ...fileServer(home), env }] }));
  const page = await (await fetch(`${url}/api/test/results`)).text();
  const database = (await readFile(join(home, "tests.db"))).toString("latin1");
  const wal = (await readFile(join(home, "tests.db-wal")).catch(() => Buffer.alloc(0))).toString("latin1");
  for (const [where, text] of Object.entries({ result: JSON.stringify(result), page, database, wal, log: said() })) {
    for (const secret of ["key-of-the-request", "key-of-the-server", "secret-of-the-environment"]) {
      assert.ok(!text.includes(secret), `${secret} is in the ${where}`);
    }
  }
  assert.match(database + wal, /File Creation Test/);
});

// seed: 004/25
test("connections are the run's own, and none is left", { skip }, async (t) => {
  const { sdk, url, child, fileTest } = await fileWorld(t);
  const runs = Promise.all([sdk.runTest(fileTest()), sdk.runTest(fileTest())]);
  await until("both runs have a connection and a child", async () => {
    const { connections } = await (await fetch(`${url}/api/test/health`)).json();
    return connections === 2 && (await childrenOf(child.pid)).length >= 2;
  });
  for (const { status } of await runs) assert.equal(status, "passed");
  assert.equal((await sdk.health()).connections, 0);
  await until("children have ended", async () => (await childrenOf(child.pid)).length === 0);
});

test("a batch fills a run, with progress", { skip }, async (t) => {
  const { sdk, url, fileTest } = await fileWorld(t);
  const cases = [
    { ...fileTest(), name: "one" },
    { ...fileTest(), name: "two", expectedTools: ["read_text_file"] },
    { ...fileTest("acme"), name: "three" },
  ];
  const seen = [];
  const onProgress = ({ done, total, index, result }) => seen.push([done, total, index, result.status]);
  const { run, results } = await sdk.runBatch(cases, { name: "nightly", concurrency: 2, onProgress });
  assert.deepEqual(
    results.map(({ status }) => status),
    ["passed", "failed", "error"],
  );
  assert.deepEqual(
    seen.map(([done, total]) => [done, total]),
    [
      [1, 3],
      [2, 3],
      [3, 3],
    ],
  );
  const { name, status, totalTests, passedTests, failedTests, errorTests } = run;
  assert.deepEqual(
    { name, status, totalTests, passedTests, failedTests, errorTests },
    { name: "nightly", status: "completed", totalTests: 3, passedTests: 1, failedTests: 1, errorTests: 1 },
  );
  const { items } = await sdk.results({ run: run.id });
  assert.equal(items.length, 3);
  assert.deepEqual(await (await fetch(`${url}/api/test/runs/${run.id}`)).json(), run);
});

test("a stored configuration runs with the values of its variables, which are stored nowhere", { skip }, async (t) => {
  const { sdk, home, files, fileTest, said, url } = await fileWorld(t);
  const server = { ...fileServer(files), env: { API_TOKEN: "${API_TOKEN}" } };
  const judgeConfig = { provider: "openai", model: "m", apiKey: "${JUDGE_KEY}" };
  const { id, ...stored } = await sdk.createConfiguration({ name: "staging", serverConfigs: [server], judgeConfig });
  assert.deepEqual([stored.serverConfigs, stored.judgeConfig, stored.origin], [[server], judgeConfig, "created"]);
  const { judgeConfig: ownJudge, serverConfigs: ownServers, ...testCase } = fileTest("acme", { serverConfigs: [] });
  // The configuration replaces what the case names.
  const cases = [
    { ...testCase, name: "none" },
    { ...testCase, name: "own", judgeConfig: ownJudge, serverConfigs: ownServers },
  ];
  await assert.rejects(sdk.runConfiguration(id, cases), {
    status: 400,
    message: /needs values for \$\{API_TOKEN\}, \$\{JUDGE_KEY\}/,
  });
  const variables = { API_TOKEN: "token-of-the-run-1", JUDGE_KEY: "key-of-the-run-1" };
  const { run, results } = await sdk.runConfiguration(id, cases, { variables });
  assert.deepEqual(
    results.map(({ status, error }) => [status, error]),
    [
      ["passed", undefined],
      ["passed", undefined],
    ],
  );
  assert.deepEqual([run.configurationId, run.name], [id, "staging"]);
  assert.equal((await sdk.runs()).items[0].configurationId, id);
  assert.deepEqual((await sdk.configurations({ name: "staging" })).items, [{ id, ...stored }]);
  await assert.rejects(sdk.deleteConfiguration(id), { status: 409, message: /1 runs have the configuration/ });
  await assert.rejects(sdk.configuration("unknown"), { status: 404, message: /no configuration has the id "unknown"/ });
  const answers = await Promise.all(
    ["results", "runs", "configurations"].map(async (path) => (await fetch(`${url}/api/test/${path}`)).text()),
  );
  const database = await Promise.all(
    ["tests.db", "tests.db-wal"].map((name) => readFile(join(home, name), "latin1").catch(() => "")),
  );
  for (const text of [JSON.stringify(results), ...answers, ...database, said()]) {
    for (const secret of Object.values(variables)) assert.ok(!text.includes(secret), secret);
  }
});

test("a batch whose client goes away stops, and its run is stored as failed", { skip }, async (t) => {
  const slow = { when: /slow/, turns: [], answer: "never" };
  const { sdk, mock, url, child, fileTest } = await fileWorld(t, { scripts: [slow], delay: 5000 });
  const stop = new AbortController();
  const cases = [0, 1, 2].map((at) => ({ ...fileTest("openai", { prompt: "slow" }), name: `slow ${at}` }));
  const batch = sdk.runBatch(cases, { name: "left", signal: stop.signal });
  await until("the model is asked", mock.asked);
  stop.abort();
  await assert.rejects(batch);
  const run = await until("the run has ended", async () => {
    const { items } = await (await fetch(`${url}/api/test/runs`)).json();
    return items.find(({ status }) => status === "failed");
  });
  assert.equal(run.name, "left");
  await until("children have ended", async () => (await childrenOf(child.pid)).length === 0);
  assert.equal((await sdk.health()).connections, 0);
});

test("a server with a token refuses requests without it, but not the health check", { skip }, async (t) => {
  const { url, fileTest } = await fileWorld(t, {}, { env: { TEST_TOKEN: "t0k" } });
  await assert.rejects(new MCPTestSDK(url).runTest(fileTest()), { status: 401 });
  const result = await new MCPTestSDK({ baseUrl: url, token: "t0k" }).runTest(fileTest());
  assert.equal(result.status, "passed");
});

test("a server without commands refuses tests that name them", { skip }, async (t) => {
  const { url, fileTest } = await fileWorld(t, {}, { args: ["--no-commands"] });
  await assert.rejects(new MCPTestSDK(url).runTest(fileTest()), { status: 403, message: /does not run commands/ });
});
