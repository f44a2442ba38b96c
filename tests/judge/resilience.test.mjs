// 16 tests at once by 4 processes on one database, one of which is killed: no acknowledged result
// is lost, and no child is left.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MCPTestSDK } from "../../sdk/typescript/index.js";
import { environment, startModel } from "./model.mjs";
import {
  AIMOCK,
  FILESYSTEM,
  PROGRAM,
  base,
  childrenOf,
  descendantsOf,
  stubbornServer,
  testServer,
  until,
} from "./server.mjs";
import { folder, missing } from "./support.mjs";

const skip = missing(PROGRAM, AIMOCK, FILESYSTEM);

test("16 runs at once, 4 writers, kill -9 in the middle", { skip }, async (t) => {
  const home = await folder(t);
  const files = join(home, "files");
  await mkdir(files);
  const path = (name) => join(files, `${name}.txt`);
  const scripts = [{ when: /write/, turns: [[["list_directory", { path: files }]]], answer: "Listed." }];
  const mock = await startModel(t, { scripts });
  const env = environment(mock);
  const servers = await Promise.all([0, 1, 2, 3].map(() => testServer(t, home, { env })));
  const acknowledged = new Set();
  let broken = 0;
  const testCase = (name) => ({
    name,
    prompt: `write ${path(name)}`,
    expectedTools: ["list_directory"],
    serverConfigs: [stubbornServer(files)],
    agentConfig: { provider: "openai", model: "m" },
  });
  // Four runs in each process, each two times, so that some are in the middle when the first round has ended.
  const runs = servers.flatMap((server, at) =>
    [0, 1, 2, 3].map(async (lane) => {
      const sdk = new MCPTestSDK(server.url);
      for (const round of [0, 1]) {
        try {
          const result = await sdk.runTest(testCase(`${at}-${lane}-${round}`));
          assert.equal(result.status, "passed", result.error);
          acknowledged.add(result.id);
        } catch (error) {
          if (at !== 0) throw error;
          broken += 1;
          return;
        }
      }
    }),
  );
  const [victim] = servers;
  await until("results were acknowledged", () => acknowledged.size >= 3, 30_000);
  const left = await until(
    "the victim runs servers",
    () => descendantsOf(victim.child.pid).then((all) => all.length && all),
    30_000,
  );
  victim.child.kill("SIGKILL");
  await Promise.all(runs);
  assert.ok(broken > 0, "the victim had ended its runs before it was killed");
  const stored = new Set();
  for await (const { id } of new MCPTestSDK(servers[1].url).allResults({ limit: 7 })) stored.add(id);
  assert.deepEqual(
    [...acknowledged].filter((id) => !stored.has(id)),
    [],
  );
  assert.ok(acknowledged.size >= 24, `${acknowledged.size} results`);
  await until("the servers of the victim have ended", () => left.every((pid) => !existsSync(`/proc/${pid}`)), 10_000);
  for (const server of servers.slice(1)) {
    assert.equal((await new MCPTestSDK(server.url).health()).connections, 0);
    await until("children have ended", async () => (await childrenOf(server.child.pid)).length === 0);
  }
});

test("a command that is killed leaves no child", { skip }, async (t) => {
  const mock = await startModel(t, { scripts: [{ when: /slow/ }], delay: 30_000 });
  const home = await folder(t);
  const cases = [
    {
      name: "killed",
      prompt: "slow",
      expect: { answer: "x" },
      serverConfigs: [stubbornServer(home)],
      agentConfig: { provider: "openai", model: "m" },
    },
  ];
  await writeFile(join(home, "cases.yaml"), JSON.stringify({ cases }));
  const args = ["test", join(home, "cases.yaml"), "--database", join(home, "tests.db")];
  const child = spawn(PROGRAM, args, { env: { ...base(), ...environment(mock) }, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  const names = async (pids) =>
    (await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")))).map((name) =>
      name.trim(),
    );
  await until("the model is asked", mock.asked);
  const left = await until(
    "the server runs",
    async () => {
      const all = await descendantsOf(child.pid);
      const running = await names(all);
      return running.includes("sleep") && running.includes("node") && all;
    },
    30_000,
  );
  child.kill("SIGKILL");
  await until("all descendants have ended", () => left.every((pid) => !existsSync(`/proc/${pid}`)), 15_000);
});
