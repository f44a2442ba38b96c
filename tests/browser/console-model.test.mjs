// What the model saw of an answer, why, and what is kept of it: settings, other limits, scenarios
// with stand-ins, artifacts as files.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { after, before, test } from "node:test";
import { callTool, go, has, openPage, program, startBrowser, startServer } from "./support.mjs";

const run = promisify(execFile);
const LIMIT = 65_536;
let server;
let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "marquetry-model-"));
  [server, browser] = await Promise.all([
    startServer({ config: `[artifacts]\nmcp_tool_llm_return_max_bytes = ${LIMIT}\n` }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("the settings that decided are named, and another limit shows what it gives", { timeout: 60_000 }, async () => {
  const [small, large] = [
    await callTool(server, "lab__echo", { text: "hi" }),
    await callTool(server, "lab__large", { kib: 100 }),
  ];
  const page = await openPage(browser, server, `#/calls/${small.id}?tab=model`);
  await page.getByText("mcp_tool_response_save_threshold_bytes = 32768").waitFor();
  await go(page, `#/calls/${large.id}?tab=model`);
  await page.getByText(`mcp_tool_llm_return_max_bytes = ${LIMIT}`).waitFor();
  await page.getByText('oversize = "truncate"').waitFor();
  const shown = async (limit) => {
    await page.getByRole("button", { name: `Show the answer with a limit of ${limit}` }).click();
    const head = page.getByRole("heading", { name: `With a limit of ${limit}, the model would see` });
    await head.waitFor();
    return page.getByLabel("what the model would see").textContent();
  };
  const cut = await shown("4.0 KiB");
  assert.ok(cut.length < 10_000 && cut.includes("more than the limit of 4096"), cut.slice(-2000));
  const whole = await shown("256 KiB");
  assert.ok(whole.length > 100_000 && whole.includes("It is saved as artifact"), whole.slice(-2000));
  // The trials have saved nothing.
  const { structuredContent } = (await callTool(server, "list_artifacts", {})).result;
  assert.equal(structuredContent.artifacts.length, 1);
  await page.context().close();
});

test("the size beside the limit is the one that the limit counts", { timeout: 60_000 }, async () => {
  // Each quote has two bytes in JSON.
  const large = await callTool(server, "lab__echo", { text: '"q" '.repeat(30_000) });
  const page = await openPage(browser, server, `#/calls/${large.id}?tab=model`);
  await page.getByText("The limit counts the text alone.").waitFor();
  const columns = await page.locator("thead th").allTextContents();
  assert.deepEqual(columns.slice(1, 3), ["JSON, whole", "Text, which the limit counts"]);
  const sizes = async (row) => {
    const cells = await page.locator("tbody tr", { hasText: row }).locator("td").allTextContents();
    return cells.slice(1, 3).map((it) => Number(it.match(/^([\d.]+) KiB$/)[1]));
  };
  assert.deepEqual(await sizes("Upstream sent"), [176, 117]);
  const [json, counted] = await sizes("Model sees");
  assert.ok(counted > 10 && counted <= LIMIT / 1024 && json > 1.4 * counted, `${json} and ${counted} KiB`);
  await page.context().close();
});

test("a saved scenario needs no server, since the recorded answer stands in for it", { timeout: 120_000 }, async () => {
  const calls = [
    ["lab__echo", { text: 'at 2026-11-22T10:00:00Z "quoted" ${x}' }],
    ["lab__fails", {}],
    ["lab__form", { path: "a", mode: "read" }],
    ["lab__large", { kib: 100 }],
    ["lab__picture", {}],
  ];
  const page = await openPage(browser, server, "#/");
  const files = [];
  for (const [tool, args] of calls) {
    const { id } = await callTool(server, tool, args);
    await go(page, `#/calls/${id}?tab=save`);
    const yaml = await page.getByLabel("Scenario").textContent();
    assert.match(yaml, /^# marquetry test THIS_FILE\n/);
    files.push(join(folder, `${tool}.yaml`));
    writeFileSync(files.at(-1), yaml);
  }
  const passed = await run(program, ["test", ...files]).catch((error) => assert.fail(`${error.stdout}${error.stderr}`));
  assert.match(passed.stdout, /5 passed/);
  // The expectation is about the answer: a stand-in that says something else fails.
  const { id } = await callTool(server, "lab__echo", { text: "steady words" });
  await go(page, `#/calls/${id}?tab=save`);
  const other = (await page.getByLabel("Scenario").textContent()).replace("steady words", "other words");
  mkdirSync(join(folder, "other"));
  writeFileSync(join(folder, "other/lab__echo.yaml"), other);
  await assert.rejects(
    run(program, ["test", join(folder, "other")]),
    ({ code, stdout }) => code === 1 && stdout.includes("other words"),
  );
  await page.getByLabel("The recorded answer stands in for the server").uncheck();
  const remote = await page.getByLabel("Scenario").textContent();
  assert.ok(
    remote.startsWith(`# marquetry test THIS_FILE --url ${server.url}/mcp`) && !remote.includes("given:"),
    remote,
  );
  writeFileSync(join(folder, "lab__echo.yaml"), remote);
  await run(program, ["test", join(folder, "lab__echo.yaml"), "--url", `${server.url}/mcp`]);
  await page.context().close();
});

test("an artifact is downloaded as a file that no browser shows", { timeout: 60_000 }, async () => {
  const { structuredContent } = (await callTool(server, "list_artifacts", {})).result;
  const { name } = structuredContent.artifacts.find((it) => it.name.includes("large"));
  const url = `${server.url}/api/console/artifacts/${name}?version=0`;
  const response = await fetch(url);
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "0123456789abcde\n".repeat(6400));
  const header = (wanted) => response.headers.get(wanted);
  assert.match(header("content-disposition"), /^attachment; filename\*=UTF-8''/);
  assert.deepEqual(
    [
      header("content-security-policy"),
      header("x-content-type-options"),
      header("cache-control"),
      header("content-length"),
    ],
    ["sandbox; default-src 'none'", "nosniff", "no-store", "102400"],
  );
  const status = async (path, options) => (await fetch(`${server.url}/api/console/artifacts/${path}`, options)).status;
  assert.equal(await status(`${name}?version=99`), 404);
  assert.equal(await status("absent.txt"), 404);
  assert.equal(await status("..%2Fx"), 400);
  assert.equal(await status(name, { headers: { "Sec-Fetch-Site": "cross-site" } }), 403);
});

test("an artifact that the list does not have is shown in its newest version", { timeout: 60_000 }, async () => {
  await callTool(server, "lab__large", { kib: 100 });
  const { name } = (await callTool(server, "list_artifacts", {})).result.structuredContent.artifacts.find((it) =>
    it.name.includes("large"),
  );
  const page = await openPage(browser, server);
  // The list has so many others with this part in their names that it is not among the first.
  await page.route("**/api/console/artifacts?*", (route) => route.fulfill({ json: { artifacts: [] } }));
  const read = page.waitForRequest((it) => it.headers()["mcp-method"] === "resources/read");
  await go(page, `#/artifacts/${encodeURIComponent(name)}`);
  assert.equal((await read).headers()["mcp-name"], `artifact://${name}`);
  await has(page, "0123456789abcde");
  const saved = page.waitForRequest((it) => it.url().includes("/api/console/artifacts/"));
  await page.getByRole("button", { name: "Download", exact: true }).first().click();
  assert.equal(new URL((await saved).url()).search, "");
  await page.context().close();
});

test("secrets of an answer are shown neither as said nor as shown", async () => {
  const { id } = await callTool(server, "lab__form", { path: "a", mode: "read", password: "xyzzy-99" });
  for (const part of ["said", "shown", "with-limit?bytes=4096"]) {
    const text = await (await fetch(`${server.url}/api/console/calls/${id}/${part}`)).text();
    assert.ok(text.includes('"password":"(hidden)"') && !text.includes("xyzzy"), `${part}: ${text}`);
  }
});
