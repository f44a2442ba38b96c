// The test API on the main server: off by default, on with ENABLE_TESTING=true or a setting, and
// only for administrators.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MCPTestSDK } from "../../sdk/typescript/index.js";
import { environment, startModel } from "./model.mjs";
import { AIMOCK, FILESYSTEM, PROGRAM, descendantsOf, start, until } from "./server.mjs";
import { folder, missing } from "./support.mjs";

const skip = missing(PROGRAM, AIMOCK, FILESYSTEM);

async function world(t, settings = "", env = {}, model = {}) {
  const scripts = [{ when: /hello\.txt/, turns: [[["write_file", { path: "hello.txt", content: "Hello" }]]] }];
  const mock = await startModel(t, { scripts, ...model });
  const home = await folder(t);
  const files = join(home, "files");
  await mkdir(files);
  const server = { command: process.execPath, args: [FILESYSTEM, files], cwd: files };
  await writeFile(join(home, "mcp.json"), JSON.stringify({ mcpServers: { files: server } }), { mode: 0o600 });
  await writeFile(join(home, "m.toml"), `[knowledge]\nenabled = false\n${settings}`, { mode: 0o600 });
  const args = ["serve", "--config", join(home, "m.toml"), "--mcp-config", join(home, "mcp.json"), "--listen", "0"];
  const running = await start(t, args, { ...environment(mock), XDG_DATA_HOME: home, ...env });
  const origin = new URL(running.url).origin;
  const testCase = {
    name: "File Creation Test",
    prompt: "Create hello.txt",
    expectedTools: ["write_file"],
    judgeConfig: { provider: "openai", model: "gpt-4", votes: 1 },
  };
  return { url: origin, child: running.child, files, mock, testCase };
}

test("without testing the main server is no test server", { skip }, async (t) => {
  const { url } = await world(t);
  assert.equal((await fetch(`${url}/api/test/health`)).status, 404);
  await assert.rejects(new MCPTestSDK(url).connect(), { code: "not-a-test-server" });
});

for (const [how, settings, env] of [
  ["ENABLE_TESTING=true", "", { ENABLE_TESTING: "true" }],
  ["testing.enabled", "[testing]\nenabled = true\n", {}],
]) {
  // seed: 004/05
  test(`with ${how} it runs tests against its upstreams, by connections of their own`, { skip }, async (t) => {
    const { url, files, testCase } = await world(t, settings, env);
    const result = await new MCPTestSDK(url).runTest(testCase);
    assert.equal(result.status, "passed", result.error);
    assert.equal(result.toolCalls[0].serverId, "files");
    assert.equal(await readFile(join(files, "hello.txt"), "utf8"), "Hello");
  });
}

/** A session of an agent at the main server, as its clients have it. */
async function session(url) {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const post = async (message) => {
    const response = await fetch(`${url}/mcp`, {
      method: "POST",
      headers,
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
    const text = await response.text();
    const data = text.match(/^data: ?(\{.*)$/m)?.[1] ?? text;
    return { id: response.headers.get("mcp-session-id"), status: response.status, answer: data && JSON.parse(data) };
  };
  const clientInfo = { name: "page", version: "1" };
  const { id } = await post({
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo },
  });
  Object.assign(headers, { "mcp-session-id": id, "mcp-protocol-version": "2025-06-18" });
  await post({ method: "notifications/initialized" });
  return {
    id,
    call: async (name, args) =>
      (await post({ id: 2, method: "tools/call", params: { name, arguments: args } })).answer.result,
  };
}

// seed: 004/26
test("tests start servers of their own, and leave those of the main server and its sessions alone", {
  skip,
}, async (t) => {
  const { url, child, files, testCase } = await world(t, "[testing]\nenabled = true\n", {}, { delay: 1000 });
  const isFileServer = async (pid) =>
    (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).includes("server-filesystem");
  const fileServers = async () => {
    const all = await descendantsOf(child.pid);
    const are = await Promise.all(all.map(isFileServer));
    // A guard has the command of its server among its arguments, so that a server is two processes.
    return all.filter((_, at) => are[at]).sort();
  };
  const page = await session(url);
  assert.ok(page.id);
  await writeFile(join(files, "page.txt"), "of the page");
  const read = async () =>
    (await page.call("files__read_text_file", { path: join(files, "page.txt") })).content[0].text;
  assert.equal(await read(), "of the page");
  const before = await fileServers();
  assert.ok(before.length > 0);
  const sdk = new MCPTestSDK(url);
  const tests = Promise.all([sdk.runTest(testCase), sdk.runTest(testCase)]);
  const during = await until("both tests have servers of their own", async () => {
    const now = await fileServers();
    return now.length === 3 * before.length && now;
  });
  assert.deepEqual(
    before.filter((pid) => !during.includes(pid)),
    [],
  );
  // The session works while tests run: none of their connections is its own.
  assert.equal((await sdk.health()).connections, 2);
  assert.equal(await read(), "of the page");
  for (const { status, error } of await tests) assert.deepEqual([status, error], ["passed", undefined]);
  await until("the servers of the tests have ended", async () => (await fileServers()).length === before.length);
  assert.deepEqual(await fileServers(), before, "those of the main server are the same processes");
  assert.equal((await sdk.health()).connections, 0);
  assert.equal(await read(), "of the page", "the session is still open");
});

test("a client that leaves the main server has its result stored", { skip }, async (t) => {
  const { url, mock, testCase } = await world(t, "[testing]\nenabled = true\n", {}, { delay: 30_000 });
  const sdk = new MCPTestSDK(url);
  const leave = new AbortController();
  const options = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(testCase),
    signal: leave.signal,
  };
  const failed = assert.rejects(fetch(`${url}/api/test/run`, options), { name: "AbortError" });
  await until("the model is asked", mock.asked);
  assert.equal((await sdk.health()).connections, 1);
  leave.abort();
  await failed;
  const result = await until("the result is stored", async () => (await sdk.results()).items[0]);
  assert.equal(result.status, "error");
  assert.match(result.error, /its client closed the connection before the result/);
  assert.equal((await sdk.health()).connections, 0);
});

test("with [auth] tests need the scope admin, and pages are refused", { skip }, async (t) => {
  const secret = (name) => `${name}-${"x".repeat(32)}`;
  const token = (name, scopes) => `[auth.tokens.${name}]\nenv = "TOKEN_${name}"\nscopes = ${scopes}\n`;
  const settings = `[testing]\nenabled = true\n${token("root", '["admin"]')}${token("user", "[]")}`;
  const { url, testCase } = await world(t, settings, { TOKEN_root: secret("root"), TOKEN_user: secret("user") });
  const post = (headers) =>
    fetch(`${url}/api/test/run`, {
      method: "POST",
      body: JSON.stringify(testCase),
      headers: { "content-type": "application/json", ...headers },
    }).then(({ status }) => status);
  const bearer = (name) => ({ authorization: `Bearer ${secret(name)}` });
  assert.equal(await post({}), 403);
  assert.equal(await post(bearer("user")), 403);
  assert.equal(await post(bearer("wrong")), 401);
  assert.equal(await post({ ...bearer("root"), origin: "http://127.0.0.1:1" }), 403);
  assert.equal(await post(bearer("root")), 200);
});
