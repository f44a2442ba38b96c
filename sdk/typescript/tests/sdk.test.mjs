import assert from "node:assert/strict";
import { test } from "node:test";
import { MAIN_PORTS, MCPTestError, MCPTestSDK, TEST_PORTS } from "../index.js";
import { HEALTH, json, serve, testServer } from "./fake-server.mjs";

const CASE = { name: "reads", prompt: "Read a.txt", expectedTools: ["read_text_file"] };
const RESULT = {
  id: "1",
  testCase: CASE,
  toolCalls: [],
  verdict: { passed: true, confidence: 1, reasoning: "yes", toolAccuracy: 1 },
  duration: 3,
  success: true,
  status: "passed",
  timestamp: "2026-11-22T21:00:00Z",
};

async function with_(server, body) {
  const running = await server;
  try {
    return await body(running);
  } finally {
    await running.close();
  }
}

/** A `fetch` on which only the given URLs are test servers. */
function network(answers) {
  const asked = [];
  const fetch = async (url) => {
    asked.push(url);
    const answer = answers[new URL(url).origin];
    if (answer === undefined) throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
    return answer instanceof Response ? answer : Response.json(answer);
  };
  return { fetch, asked };
}

// seed: 004/21
test("the ports are tried in the order of the seed", async () => {
  const { fetch, asked } = network({ "http://127.0.0.1:3000": HEALTH });
  const sdk = new MCPTestSDK({ fetch });
  await sdk.connect();
  assert.equal(sdk.baseUrl, "http://127.0.0.1:3000");
  assert.deepEqual(
    asked,
    [3002, 3003, 3004, 3001, 3000].map((port) => `http://127.0.0.1:${port}/api/test/health`),
  );
  assert.deepEqual([...TEST_PORTS, ...MAIN_PORTS], [3002, 3003, 3004, 3001, 3000]);
});

test("an option that does not exist is an error", () => {
  assert.throws(
    () => new MCPTestSDK({ serverUrl: "http://127.0.0.1:9" }),
    /no option is called serverUrl; there are baseUrl, token/,
  );
});

test("a dedicated server goes before a main server, and what is no test server is passed over", async () => {
  const { fetch, asked } = network({
    "http://127.0.0.1:3002": new Response("<html>", { headers: { "content-type": "text/html" } }),
    "http://127.0.0.1:3003": { testing: false },
    "http://127.0.0.1:3004": HEALTH,
    "http://127.0.0.1:3001": HEALTH,
  });
  const sdk = new MCPTestSDK({ fetch });
  await sdk.connect();
  assert.equal(sdk.baseUrl, "http://127.0.0.1:3004");
  assert.equal(asked.length, 3);
});

// seed: 004/22
test("without a server the error tells both ways to start one", async () => {
  const { fetch } = network({});
  await assert.rejects(new MCPTestSDK({ fetch }).runTest(CASE), (error) => {
    assert.ok(error instanceof MCPTestError);
    assert.equal(error.code, "no-test-server");
    assert.match(error.message, /marquetry test-server .*:3002/);
    assert.match(error.message, /ENABLE_TESTING=true marquetry serve .*:3001/);
    return true;
  });
});

// seed: 004/20
test("a given URL that is not a test server is an error that says why, and no port is tried", async () => {
  const notOn = "/api/test/health does not say that testing is on";
  for (const [answer, reason] of [
    [undefined, "connect ECONNREFUSED"],
    [{ testing: "true" }, notOn],
    [new Response("", { status: 404 }), "/api/test/health has the status 404"],
    [null, notOn],
  ]) {
    const { fetch, asked } = network({ "http://127.0.0.1:9": answer, "http://127.0.0.1:3002": HEALTH });
    await assert.rejects(new MCPTestSDK({ baseUrl: "http://127.0.0.1:9/", fetch }).runTest(CASE), {
      code: "not-a-test-server",
      message: `Provided URL http://127.0.0.1:9 is not a test server: ${reason}`,
    });
    assert.equal(asked.length, 1);
  }
});

test("a token is sent to no server that a search has found", async () => {
  const { fetch, asked } = network({ "http://127.0.0.1:3002": HEALTH });
  await assert.rejects(new MCPTestSDK({ token: "t0k", fetch }).runTest(CASE), {
    code: "token-without-url",
    message: /set baseUrl, for example "http:\/\/127\.0\.0\.1:3002"/,
  });
  assert.deepEqual(asked, []);
});

test("a server that is silent is given up after 2 s", async () => {
  await with_(serve({ "GET /api/test/health": () => {} }), async (silent) => {
    await with_(testServer(), async (second) => {
      const sdk = new MCPTestSDK({ testPorts: [silent.port], mainPorts: [second.port] });
      const began = performance.now();
      await sdk.connect();
      const elapsed = performance.now() - began;
      assert.equal(sdk.baseUrl, second.url);
      assert.ok(elapsed > 1900 && elapsed < 2900, `${elapsed} ms`);
    });
  });
});

test("a failed discovery is not remembered", async () => {
  const answers = {};
  const { fetch } = network(answers);
  const sdk = new MCPTestSDK({ fetch });
  await assert.rejects(sdk.connect());
  answers["http://127.0.0.1:3002"] = HEALTH;
  await sdk.connect();
  assert.equal(sdk.baseUrl, "http://127.0.0.1:3002");
});

test("calls at the same time share one discovery", async () => {
  await with_(testServer({ "POST /api/test/run": json(RESULT) }), async (server) => {
    const sdk = new MCPTestSDK(server.url);
    await Promise.all([sdk.runTest(CASE), sdk.runTest(CASE), sdk.runTest(CASE)]);
    assert.equal(server.seen.filter(({ path }) => path === "/api/test/health").length, 1);
  });
});

test("a test is sent as JSON, with the token", async () => {
  await with_(testServer({ "POST /api/test/run": json(RESULT) }), async (server) => {
    const sdk = new MCPTestSDK({ baseUrl: server.url, token: "t0k" });
    assert.deepEqual(await sdk.runTest(CASE), RESULT);
    const { headers, body } = server.seen.at(-1);
    assert.equal(headers["content-type"], "application/json");
    assert.ok(server.seen.every(({ headers }) => headers.authorization === "Bearer t0k"));
    assert.deepEqual(JSON.parse(body), CASE);
  });
});

test("an error of the server has its status and its words", async () => {
  const refuse = json({ error: "the body is no test case: missing field `prompt`" }, 400);
  await with_(testServer({ "POST /api/test/run": refuse }), async (server) => {
    await assert.rejects(new MCPTestSDK(server.url).runTest(CASE), {
      code: "refused",
      status: 400,
      message: /400 the body is no test case: missing field `prompt`/,
    });
  });
});

test("an answer that is no JSON, and a server that is gone", async () => {
  const server = await testServer({ "POST /api/test/run": (response) => response.end("<html>") });
  const sdk = new MCPTestSDK(server.url);
  await assert.rejects(sdk.runTest(CASE), { code: "malformed" });
  await server.close();
  await assert.rejects(sdk.runTest(CASE), { code: "unreachable", message: /POST http.*failed: .+/ });
});

const RUN = {
  id: "r1",
  totalTests: 2,
  passedTests: 1,
  failedTests: 1,
  errorTests: 0,
  startedAt: "2026-11-22T21:00:00Z",
};

/** Writes a stream byte by byte in pieces, so that lines and characters are cut. */
const stream =
  (text, piece = 7) =>
  async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += piece) {
      response.write(bytes.subarray(at, at + piece));
      await new Promise(setImmediate);
    }
    response.end();
  };

const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

test("a batch reports progress, and its results have the order of the cases", async () => {
  const failed = { ...RESULT, success: false, status: "failed", error: "größer" };
  const text =
    `: hello\n\n` +
    event("started", { ...RUN, status: "running" }) +
    event("result", { index: 1, done: 1, total: 2, result: failed }) +
    ": still here\r\n\r\n" +
    event("result", { index: 0, done: 2, total: 2, result: RESULT }) +
    event("completed", { ...RUN, status: "completed" });
  await with_(testServer({ "POST /api/test/batch": stream(text) }), async (server) => {
    const seen = [];
    const sdk = new MCPTestSDK(server.url);
    const onProgress = ({ done, total, index }) => seen.push([done, total, index]);
    const { run, results } = await sdk.runBatch([CASE, CASE], { name: "nightly", concurrency: 2, onProgress });
    assert.deepEqual(seen, [
      [1, 2, 1],
      [2, 2, 0],
    ]);
    assert.deepEqual(results, [RESULT, failed]);
    assert.equal(run.status, "completed");
    const { body, headers } = server.seen.at(-1);
    assert.deepEqual(JSON.parse(body), { cases: [CASE, CASE], name: "nightly", concurrency: 2 });
    assert.equal(headers.accept, "text/event-stream");
  });
});

test("cases are run with a configuration as a batch is", async () => {
  const text =
    event("result", { index: 0, done: 1, total: 1, result: RESULT }) +
    event("completed", { ...RUN, configurationId: "c/1" });
  await with_(testServer({ "POST /api/test/configurations/c%2F1/run": stream(text) }), async (server) => {
    const options = { name: "nightly", variables: { TOKEN: "t" } };
    const { run, results } = await new MCPTestSDK(server.url).runConfiguration("c/1", [CASE], options);
    assert.equal(run.configurationId, "c/1");
    assert.deepEqual(results, [RESULT]);
    assert.deepEqual(JSON.parse(server.seen.at(-1).body), { cases: [CASE], ...options });
  });
});

test("a batch whose stream is cut or fails is an error", async () => {
  const cut = event("started", RUN) + event("result", { index: 0, done: 1, total: 2, result: RESULT });
  for (const [text, expected] of [
    [cut, { code: "cut-stream", message: /batch r1 ended before its end/ }],
    [
      cut + event("failed", { error: "the database is full" }),
      { code: "batch-failed", message: /the database is full/ },
    ],
    ["event: started\ndata: {\n\n", { code: "malformed" }],
  ]) {
    await with_(testServer({ "POST /api/test/batch": stream(text) }), async (server) => {
      await assert.rejects(new MCPTestSDK(server.url).runBatch([CASE, CASE]), expected);
    });
  }
});

/** Sends the beginning of an answer, and then the connection fails, as it does when the server is killed. */
const killed = (type, beginning) => async (response) => {
  response.writeHead(200, { "content-type": type });
  response.write(beginning);
  await new Promise((done) => setTimeout(done, 50));
  response.socket.destroy();
};

test("a server that is killed in the middle of an answer has cut it", async () => {
  const stream = killed("text/event-stream", event("started", RUN));
  // The answer to a long test begins with spaces.
  const routes = {
    "POST /api/test/batch": stream,
    "GET /api/test/events": stream,
    "POST /api/test/run": killed("application/json", "  "),
  };
  await with_(testServer(routes), async (server) => {
    const sdk = new MCPTestSDK(server.url);
    const isCut = (message) => (error) => {
      assert.ok(error instanceof MCPTestError, String(error));
      assert.equal(error.code, "cut-stream");
      assert.match(error.message, message);
      assert.ok(error.cause instanceof Error);
      return true;
    };
    await assert.rejects(sdk.runBatch([CASE]), isCut(/batch r1 ended before its end/));
    await assert.rejects(sdk.runTest(CASE), isCut(/run was cut/));
    const seen = [];
    const read = async () => {
      for await (const { event } of sdk.events()) seen.push(event);
    };
    await assert.rejects(read(), isCut(/stream of events was cut/));
    assert.deepEqual(seen, ["started"]);
  });
});

/** A client of one stream of events, given in chunks. */
function ofStream(chunks) {
  const encoder = new TextEncoder();
  const body = () =>
    new ReadableStream({
      pull: (controller) => {
        const { value, done } = chunks.next();
        done ? controller.close() : controller.enqueue(encoder.encode(value));
      },
    });
  const fetch = async (url) => (url.endsWith("/health") ? Response.json(HEALTH) : new Response(body()));
  return new MCPTestSDK({ baseUrl: "http://127.0.0.1:9", fetch });
}

async function namesOf(sdk) {
  const names = [];
  for await (const { event, data } of sdk.events()) names.push(`${event} ${JSON.stringify(data).length}`);
  return names;
}

test("lines end as the standard says, wherever they are cut", async () => {
  const text = "event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\rdata: 3\ndata:\n\nevent: cut\ndata: 4\n";
  for (const size of [1, 2, 3, 5, 1000]) {
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, "g"));
    assert.deepEqual(await namesOf(ofStream(pieces.values())), ["a 1", "b 1", "message 1"], `${size}`);
  }
});

// Searching the whole line again for each chunk takes minutes.
test("a long event is read in a time that grows with its length", async () => {
  const piece = "x".repeat(4096);
  function* long() {
    yield 'event: result\ndata: "';
    for (let at = 0; at < 4096; at += 1) yield piece;
    yield '"\n\n';
  }
  const began = performance.now();
  assert.deepEqual(await namesOf(ofStream(long())), [`result ${2 + 4096 * 4096}`]);
  const elapsed = performance.now() - began;
  assert.ok(elapsed < 10_000, `${elapsed} ms`);
});

test("an event without end is given up", async () => {
  const megabyte = "x".repeat(1 << 20);
  const repeated = function* (text) {
    for (let at = 0; at < 80; at += 1) yield text;
  };
  for (const text of [megabyte, `data: ${megabyte}\n`]) {
    await assert.rejects(namesOf(ofStream(repeated(text))), {
      code: "too-long",
      message: /an event is longer than 67108864/,
    });
  }
});

test("a batch is aborted by its signal", async () => {
  const endless = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(event("started", RUN));
  };
  await with_(testServer({ "POST /api/test/batch": endless }), async (server) => {
    const signal = AbortSignal.timeout(50);
    await assert.rejects(new MCPTestSDK(server.url).runBatch([CASE], { signal }), { name: "TimeoutError" });
  });
});

test("results are filtered, and read page by page", async () => {
  const pages = (response, { query }) => {
    const second = query.get("cursor") === "c1";
    json(second ? { items: [{ id: "3" }] } : { items: [{ id: "1" }, { id: "2" }], nextCursor: "c1" })(response);
  };
  await with_(testServer({ "GET /api/test/results": pages }), async (server) => {
    const sdk = new MCPTestSDK(server.url);
    const ids = [];
    const since = new Date("2026-11-22T00:00:00Z");
    for await (const { id } of sdk.allResults({ status: "failed", since, limit: 2 })) ids.push(id);
    assert.deepEqual(ids, ["1", "2", "3"]);
    assert.deepEqual(server.seen.at(-1).query, {
      status: "failed",
      since: "2026-11-22T00:00:00.000Z",
      limit: "2",
      cursor: "c1",
    });
  });
});

test("stored data is asked for at its paths", async () => {
  const asked = [];
  const fetch = async (url, { method, body }) => {
    const { pathname, search } = new URL(url);
    asked.push(`${method} ${pathname}${search}${body ? ` ${body}` : ""}`);
    return Response.json(pathname.endsWith("/health") ? HEALTH : { items: ["an item"] });
  };
  const sdk = new MCPTestSDK({ baseUrl: "http://127.0.0.1:9", fetch });
  await sdk.result("a/b");
  assert.deepEqual(await sdk.outcomes({ run: "r 1", limit: 5 }), ["an item"]);
  await sdk.runs({ cursor: "c" });
  await sdk.run("r");
  assert.deepEqual(await sdk.cases(), ["an item"]);
  await sdk.history("a & b");
  await sdk.compare("x", "y");
  assert.deepEqual(await sdk.judges(), ["an item"]);
  assert.deepEqual(await sdk.overrides("q"), ["an item"]);
  await sdk.putOverride("q", { trial: 0, passed: true, reason: "it did" });
  await sdk.createConfiguration({ name: "c" });
  await sdk.configurations({ name: "c", origin: "created", limit: 1 });
  await sdk.configuration("a/b");
  await sdk.deleteConfiguration("c1");
  assert.deepEqual(
    asked.slice(1).map((it) => it.replace("/api/test/", "")),
    [
      "GET results/a%2Fb",
      "GET outcomes?run=r+1&limit=5",
      "GET runs?cursor=c",
      "GET runs/r",
      "GET cases",
      "GET history?name=a+%26+b",
      "GET compare?base=x&new=y",
      "GET judges",
      "GET results/q/overrides",
      'POST results/q/overrides {"trial":0,"passed":true,"reason":"it did"}',
      'POST configurations {"name":"c"}',
      "GET configurations?name=c&origin=created&limit=1",
      "GET configurations/a%2Fb",
      "DELETE configurations/c1",
    ],
  );
});

test("events are yielded one by one", async () => {
  const text = 'event: open\ndata: {}\n\n: kept\n\nevent: progress\ndata: {"index":1}\n\n';
  const fetch = async (url) => (url.endsWith("/health") ? Response.json(HEALTH) : new Response(text));
  const seen = [];
  for await (const event of new MCPTestSDK({ baseUrl: "http://127.0.0.1:9", fetch }).events({ run: "r" }))
    seen.push(event);
  assert.deepEqual(seen, [
    { event: "open", data: {} },
    { event: "progress", data: { index: 1 } },
  ]);
});
