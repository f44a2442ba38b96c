// `marquetry test` with cases: exit statuses, summaries, reports, history, comparison, the test of a judge, cassettes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MCPTestSDK } from "../../sdk/typescript/index.js";
import { environment, startModel, votes } from "./model.mjs";
import { AIMOCK, FILESYSTEM, PROGRAM, base, fileServer, run, testServer, until } from "./server.mjs";
import { folder, missing } from "./support.mjs";

const skip = missing(PROGRAM, AIMOCK, FILESYSTEM);

const scripts = [
  { when: /hello\.txt/, turns: [[["write_file", { path: "hello.txt", content: "Hello" }]]], answer: "Written." },
];

const CASES = `
judgeConfig: {provider: openai, model: gpt-4, votes: 1}
cases:
  - name: writes a file
    prompt: Write hello.txt.
    expectedTools: [{name: write_file, arguments: {path: hello.txt}}]
`;

async function world(t, { cases = CASES, ...model } = {}) {
  const mock = await startModel(t, { scripts, ...model });
  const home = await folder(t);
  const files = join(home, "files");
  await mkdir(files);
  await writeFile(join(home, "cases.yaml"), cases);
  const server = ["--", process.execPath, FILESYSTEM, files];
  const env = environment(mock);
  const command = (args, { own = server, more = {} } = {}) =>
    run(["test", ...args, ...own], { env: { ...env, XDG_DATA_HOME: home, ...more }, cwd: files });
  return { mock, home, files, command, cases: join(home, "cases.yaml") };
}

test("a passing case has the exit status 0 and a line", { skip }, async (t) => {
  const { command, cases } = await world(t);
  await writeFile(cases, `name: nightly run\n${CASES}`);
  const { code, stdout, stderr } = await command([cases]);
  assert.equal(code, 0, stdout + stderr);
  assert.match((await command(["history"], { own: [] })).stdout, /nightly run/);
  assert.match(stdout, /^test writes a file \.\.\. ok \(\d+ ms\)\n/);
  assert.match(stdout, /test result: ok\. 1 passed; 0 failed; 0 without a verdict\n$/);
});

test("a failing case has the exit status 1, with the expected call beside the actual one", { skip }, async (t) => {
  const { command, cases } = await world(t, { cases: CASES.replace("{path: hello.txt}", "{path: hallo.txt}") });
  const { code, stdout } = await command([cases, "--repeat", "2"]);
  assert.equal(code, 1, stdout);
  assert.match(stdout, /FAILED \(\d+ ms, 0 of 2 trials\)/);
  assert.match(stdout, /^0 of 2 trials passed \(95 % interval 0 to 66 %\)$/m);
  assert.match(stdout, /! write_file \{"path":"hallo\.txt"\} +server1\/write_file \{"path":"hello\.txt"/);
  assert.match(stdout, /test result: FAILED\. 0 passed; 1 failed/);
});

test("a case that cannot be judged has the exit status 3, wrong files 2", { skip }, async (t) => {
  const { command, cases, home } = await world(t, { judge: () => ({ content: "?" }) });
  const broken = await command([cases]);
  assert.equal(broken.code, 3, broken.stdout);
  assert.match(broken.stdout, /ERROR/);
  await writeFile(join(home, "wrong.yaml"), "cases:\n  - {name: a, prompts: b}\n");
  const wrong = await command([join(home, "wrong.yaml")]);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /wrong\.yaml:2:\d+: .*prompts/);
  assert.equal((await command([join(home, "absent.yaml")])).code, 2);
  assert.equal((await command([cases, "--model", "gpt-4"])).code, 2);
});

test("scenarios and cases run together", { skip }, async (t) => {
  const { command, home, cases } = await world(t);
  await writeFile(
    join(home, "lists.yaml"),
    "id: lists\ntitle: The folder is listed.\nsteps:\n  - call: list_allowed_directories\n    expect: {content: [{text: {$mentions: [files]}}], structured: {content: {$mentions: [files]}}}\n",
  );
  const { code, stdout, stderr } = await command([join(home, "lists.yaml"), cases]);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /lists/);
  assert.match(stdout, /test writes a file \.\.\. ok/);
});

test("reports are written in four formats", { skip }, async (t) => {
  const { command, cases, home } = await world(t);
  const reports = ["junit", "json", "tap", "html"].flatMap((name) => [
    "--report",
    `${name}=${join(home, `r.${name}`)}`,
  ]);
  const { code, stdout } = await command([cases, ...reports]);
  assert.equal(code, 0);
  assert.match(stdout, /test result: ok/);
  const report = (name) => readFile(join(home, `r.${name}`), "utf8");
  assert.match(await report("junit"), /<testcase [^>]*name="writes a file"/);
  assert.match(await report("tap"), /^TAP version 14/);
  assert.match(await report("html"), /<!doctype html>/i);
  assert.match(JSON.stringify(JSON.parse(await report("json"))), /writes a file/);
  const printed = await command([cases, "--report", "tap"]);
  assert.match(printed.stdout, /^TAP version 14/);
});

test("history, comparison and the test of a judge read the database", { skip }, async (t) => {
  const { command, cases, home } = await world(t);
  const own = [];
  const absent = join(home, "typo", "tests.db");
  for (const args of [["history"], ["history", "writes a file"], ["compare"], ["judge-check", cases]]) {
    const { code, stderr } = await command([...args, "--database", absent], { own });
    assert.equal(code, 2, stderr);
    assert.ok(stderr.includes(`there is no database ${absent}: check --database`), stderr);
  }
  await assert.rejects(stat(join(home, "typo")), { code: "ENOENT" });
  assert.equal((await command(["history", "writes a file"], { own })).code, 2);
  for (const [database, want] of [
    ["http://127.0.0.1:9", /cannot be reached/],
    ["http://db.example", /use libsql: or https:/],
  ]) {
    const { code, stderr } = await command(["history", "--database", database], { own });
    assert.equal(code, 3, stderr);
    assert.match(stderr, want);
  }
  for (let round = 0; round < 2; round++) assert.equal((await command([cases, "--repeat", "5"])).code, 0);
  const history = await command(["history", "writes a file"], { own });
  assert.equal(history.code, 0, history.stderr);
  assert.match(history.stdout, /passed +5 of 5 trials/);
  assert.match(history.stdout, /pass rate 100 % \(10 of 10;/);
  const all = await command(["history", "--json"], { own });
  assert.deepEqual(
    JSON.parse(all.stdout).runs.map(({ status }) => status),
    ["completed", "completed"],
  );
  const same = await command(["compare"], { own });
  assert.equal(same.code, 0, same.stderr);
  assert.match(same.stdout, /verdict: no change/);
  assert.doesNotMatch(same.stdout, /not the same case/);
  // A judge that always says yes notices no fault.
  const check = await command(["judge-check", cases, "--json"], { own });
  assert.equal(check.code, 1, check.stderr);
  const { detection, falseAlarms, unconfirmedRejections } = JSON.parse(check.stdout);
  assert.deepEqual([detection.rate, falseAlarms.of, unconfirmedRejections.rate], [0, 0, 0]);
  assert.match(
    (await command(["judge-check", cases], { own })).stdout,
    /false alarms: not measured, .*\nchanged verdicts: 0 % \(0 of 2;/,
  );
});

test("the history tells the chances of a case, and how judges agree with people", { skip }, async (t) => {
  const { command, cases, home, mock } = await world(t);
  const database = join(home, "tests.db");
  assert.equal((await command([cases, "--repeat", "3", "--database", database])).code, 0);
  const { url } = await testServer(t, home, { env: environment(mock) });
  const sdk = new MCPTestSDK(url);
  const [{ id }] = (await sdk.results()).items;
  for (const [trial, passed] of [
    [0, true],
    [1, true],
    [2, false],
  ])
    await sdk.putOverride(id, { trial, passed, reason: "seen", author: "anna" });
  const history = (more) => command(["history", ...more, "--database", database], { own: [] });
  assert.match((await history(["writes a file"])).stdout, /of 3 trials, at least one passes: 100 %; all pass: 100 %/);
  // A judge that says yes to everything agrees by chance alone.
  assert.match(
    (await history([])).stdout,
    /judges, compared with the verdicts of people:\n.*gpt-4 {2}κ 0\.00; equal verdicts 67 % \(2 of 3;/,
  );
  const { judges, runs } = JSON.parse((await history(["--json"])).stdout);
  assert.match(runs[0].configurationId, /^[0-9a-f]{16}$/);
  assert.deepEqual([judges.length, judges[0].kappa], [1, 0]);
});

test("a run that has become worse is a regression", { skip }, async (t) => {
  let answer = "yes";
  const { command, cases } = await world(t, {
    judge: (request) => (answer ? votes(answer)(request) : { content: "?" }),
  });
  assert.equal((await command([cases, "--repeat", "10"])).code, 0);
  answer = "no";
  assert.equal((await command([cases, "--repeat", "10"])).code, 1);
  const worse = await command(["compare"], { own: [] });
  assert.equal(worse.code, 1);
  assert.match(worse.stdout, /writes a file: 100 % .* -> 0 % .* regression/);
  // The rates of a case that was changed say little about the program.
  await writeFile(cases, CASES.replace("prompt: ", "prompt: Now! "));
  assert.equal((await command([cases, "--repeat", "2"])).code, 1);
  const other = await command(["compare"], { own: [] });
  assert.match(other.stdout, /^not the same case in both runs: writes a file \(prompt\)$/m);
  const json = await command(["compare", "--json"], { own: [] });
  assert.deepEqual(JSON.parse(json.stdout).changedCases, { "writes a file": ["prompt"] });
  answer = undefined;
  assert.equal((await command([cases])).code, 3);
  const none = await command(["compare"], { own: [] });
  assert.equal(none.code, 3, none.stdout + none.stderr);
  assert.match(none.stderr, /no trial of the run .* has a verdict/);
});

test("a judge that compares calls with the task notices all faults", { skip }, async (t) => {
  const right = (request) => {
    const { evidence } = JSON.parse(request.messages.at(-1).content);
    const calls = evidence.filter(({ kind }) => kind === "tool call");
    const good =
      calls.length === 1 &&
      calls[0].succeeded &&
      calls[0].arguments.path === "hello.txt" &&
      calls[0].arguments.content === "Hello";
    return votes(good ? "yes" : "no")(request);
  };
  const { command, cases, home, mock } = await world(t, { judge: right });
  const database = join(home, "tests.db");
  for (let round = 0; round < 2; round++) assert.equal((await command([cases, "--database", database])).code, 0);
  // A person confirms one of the two results.
  const { url } = await testServer(t, home, { env: environment(mock) });
  const sdk = new MCPTestSDK(url);
  const [{ id }] = (await sdk.results()).items;
  await sdk.putOverride(id, { trial: 0, passed: true, reason: "seen", author: "anna" });
  const check = await command(["judge-check", cases, "--json", "--database", database], { own: [] });
  assert.equal(check.code, 0, check.stdout + check.stderr);
  const { detection, falseAlarms, unconfirmedRejections } = JSON.parse(check.stdout);
  assert.deepEqual([detection.rate, falseAlarms.rate, falseAlarms.of, unconfirmedRejections.of], [1, 0, 1, 1]);
});

test("a recorded case is replayed without model and server", { skip }, async (t) => {
  const { command, cases, home, files, mock } = await world(t);
  const tapes = join(home, "tapes");
  assert.equal((await command([cases, "--record", tapes])).code, 0);
  assert.equal((await readdir(tapes)).length, 1);
  const tape = join(tapes, (await readdir(tapes))[0]);
  const recording = await readFile(tape, "utf8");
  assert.ok(!recording.includes("key-of-the-server"));
  const broken = await command([cases, "--record", tapes], { more: { OPENAI_BASE_URL: "http://127.0.0.1:9/v1" } });
  assert.equal(broken.code, 3);
  assert.match(broken.stderr, /--record: .* is not written: the case has no verdict/);
  assert.equal(await readFile(tape, "utf8"), recording, "a run without a verdict leaves the recording");
  mock.clearRequests();
  const own = ["--", "/nowhere/server", FILESYSTEM, files];
  const replayed = await command([cases, "--replay", tapes], {
    own,
    more: { OPENAI_BASE_URL: "http://127.0.0.1:9/v1" },
  });
  assert.equal(replayed.code, 0, replayed.stdout + replayed.stderr);
  assert.equal(mock.getRequests().length, 0);
  await writeFile(cases, CASES.replace("Write hello.txt.", "Write hello.txt now."));
  const changed = await command([cases, "--replay", tapes], { own });
  assert.equal(changed.code, 3);
  assert.match(changed.stdout, /differs from the recording/);
});

test("a recorded case is replayed although its votes were asked for twice", { skip }, async (t) => {
  let asked = 0;
  // The second request of a vote ends with what was wrong; the question is its first message.
  const question = (request) => ({
    ...request,
    messages: request.messages.filter(({ role }) => role === "user").slice(0, 1),
  });
  const judge = (request) => {
    asked += 1;
    const isFirst = request.messages.filter(({ role }) => role === "user").length === 1;
    return isFirst ? { content: "nope" } : votes("yes")(question(request));
  };
  const { command, cases, home, files } = await world(t, { judge, cases: CASES.replace("votes: 1", "votes: 3") });
  const tapes = join(home, "tapes");
  const recorded = await command([cases, "--record", tapes]);
  assert.equal(recorded.code, 0, recorded.stdout);
  assert.equal(asked, 6, "three votes, each asked for twice");
  const [tape] = await readdir(tapes);
  assert.equal((await stat(join(tapes, tape))).mode & 0o777, 0o600);
  const own = ["--", "/nowhere/server", FILESYSTEM, files];
  const replayed = await command([cases, "--replay", tapes], {
    own,
    more: { OPENAI_BASE_URL: "http://127.0.0.1:9/v1" },
  });
  assert.equal(replayed.code, 0, replayed.stdout + replayed.stderr);
  const { runs } = JSON.parse((await command(["history", "--json"], { own: [] })).stdout);
  assert.equal(runs.length, 1, "a replay is not stored");
  const missing = await command([cases, "--replay", home]);
  assert.equal(missing.code, 2);
});

test("a run that a signal ends stores the tests that ran, and begins no other", { skip }, async (t) => {
  const { home, files, mock, cases } = await world(t, { delay: 30_000 });
  const three = ["one", "two", "three"].map((name) => ({
    name,
    prompt: "hello.txt",
    expectedTools: ["write_file"],
    agentConfig: { provider: "openai", model: "m" },
    serverConfigs: [fileServer(files)],
  }));
  await writeFile(cases, JSON.stringify({ cases: three }));
  for (const [signal, want] of [
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ]) {
    const database = join(home, `${signal}.db`);
    const args = ["test", cases, "--jobs", "1", "--database", database];
    args.push("--report", `junit=${join(home, `${signal}.xml`)}`);
    const child = spawn(PROGRAM, args, { env: { ...base(), ...environment(mock) }, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    let printed = "";
    child.stdout.on("data", (chunk) => (printed += chunk));
    child.stderr.on("data", (chunk) => (said += chunk));
    const ended = new Promise((done) => child.on("exit", done));
    t.after(() => child.kill("SIGKILL"));
    const asked = mock.asked();
    await until("the model is asked", () => mock.asked() > asked);
    child.kill(signal);
    assert.equal(await ended, want, said);
    assert.match(said, /the results up to now are stored/);
    assert.match(printed, /test result: .* 1 without a verdict/, "the summary of what has run");
    assert.match(await readFile(join(home, `${signal}.xml`), "utf8"), /<\/testsuites>/);
    const { stdout } = await run(["test", "history", "--json", "--database", database], {
      env: { XDG_DATA_HOME: home },
    });
    const [stored] = JSON.parse(stdout).runs;
    assert.deepEqual([stored.status, stored.errorTests, stored.totalTests], ["failed", 1, 3], stdout);
  }
});

test("secrets of a case are neither in its report nor in its cassette nor in the database", { skip }, async (t) => {
  const { command, cases, home, files } = await world(t);
  const secrets = ["sk-argsecret123456", "dbsecret99", "ghp-patsecret999", "key-of-the-server"];
  const script = `echo "$0 $DATABASE_URL $GH_PAT key-of-"the-server >&2; exit 1`;
  const server = {
    type: "stdio",
    command: "sh",
    args: ["-c", script, `--api-key=${secrets[0]}`],
    env: { DATABASE_URL: `postgres://u:${secrets[1]}@h/x`, GH_PAT: secrets[2] },
  };
  await writeFile(
    cases,
    JSON.stringify({
      cases: [
        {
          name: "leaks",
          prompt: "hello.txt",
          expectedTools: ["x"],
          serverConfigs: [server],
          agentConfig: { provider: "openai", model: "m" },
        },
      ],
    }),
  );
  const report = join(home, "r.json");
  const { code, stdout } = await command(
    [cases, "--report", `json=${report}`, "--record", join(home, "tapes"), "--database", join(home, "t.db")],
    { own: [] },
  );
  assert.equal(code, 3, stdout);
  const written = [
    stdout,
    await readFile(report, "latin1"),
    await readFile(join(home, "t.db"), "latin1"),
    await readFile(join(home, "t.db-wal"), "latin1").catch(() => ""),
  ];
  for (const folder of [join(home, "tapes")])
    for (const name of await readdir(folder)) written.push(await readFile(join(folder, name), "latin1"));
  for (const secret of secrets) assert.ok(!written.join().includes(secret), secret);
  assert.ok(written[1].includes("leaks") && files);
});

test("cases run with a stored configuration, by its name", { skip }, async (t) => {
  const { command, cases, home, files, mock } = await world(t);
  const database = join(home, "tests.db");
  const { url } = await testServer(t, home, { env: environment(mock) });
  const sdk = new MCPTestSDK(url);
  const create = (model) =>
    sdk.createConfiguration({
      name: "staging",
      serverConfigs: [{ ...fileServer(files), cwd: files, env: { API_TOKEN: "${STAGING_TOKEN}" } }],
      judgeConfig: { provider: "openai", model, votes: 1 },
    });
  const old = await create("old");
  const { id } = await create("new");
  const more = { STAGING_TOKEN: "token-of-staging-1" };
  const unnamed = await command([cases, "--configuration", "staging", "--database", database], { own: [], more });
  assert.equal(unnamed.code, 2);
  assert.match(unnamed.stderr, /reads \$\{STAGING_TOKEN\} from the environment: .* add --variable STAGING_TOKEN/);
  const variable = ["--variable", "STAGING_TOKEN"];
  const args = [cases, "--configuration", "staging", ...variable, "--database", database];
  const without = await command(args, { own: [] });
  assert.equal(without.code, 2);
  assert.match(
    without.stderr,
    /the configuration "staging" needs values for \$\{STAGING_TOKEN\}: set them in the environment/,
  );
  mock.clearRequests();
  const ran = await command(args, { own: [], more });
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  assert.ok(ran.stderr.includes(`configuration: staging (${id})\nserver: `), ran.stderr);
  assert.ok(ran.stderr.includes("\njudge: openai/new\nvariables: STAGING_TOKEN\n"), ran.stderr);
  assert.deepEqual([...new Set(mock.getRequests().map(({ body }) => body.model))], ["new"], "the newest of the name");
  const [run] = (await sdk.runs()).items;
  assert.equal(run.configurationId, id);
  const { stdout } = await command(["history", "--database", database], { own: [] });
  assert.match(stdout, new RegExp(`configuration ${id}`));
  const byId = await command(
    [cases, "--configuration", old.id, ...variable, "--database", database, "--record", join(home, "tapes")],
    { own: [], more },
  );
  assert.equal(byId.code, 0, byId.stdout + byId.stderr);
  const replayed = await command(
    [cases, "--configuration", old.id, ...variable, "--database", database, "--replay", join(home, "tapes")],
    { own: [], more },
  );
  assert.equal(replayed.code, 0, replayed.stdout + replayed.stderr);
  assert.equal((await sdk.runs()).items.length, 2, "a replay is not stored");
  const unknown = await command([cases, "--configuration", "daily", "--database", database], { own: [] });
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /no configuration is called "daily": the newest are "staging"/);
  const written = [
    ran.stdout,
    ran.stderr,
    await readFile(database, "latin1"),
    await readFile(`${database}-wal`, "latin1").catch(() => ""),
  ];
  assert.ok(!written.join().includes("token-of-staging-1"));
});

test("different judges are not checked as one", { skip }, async (t) => {
  const { command, cases } = await world(t);
  assert.equal((await command([cases])).code, 0);
  const other = "  - {name: other, prompt: hello.txt, judgeConfig: {provider: openai, model: another}}\n";
  await writeFile(cases, CASES + other);
  const differing = await command(["judge-check", cases], { own: [] });
  assert.equal(differing.code, 2);
  assert.match(differing.stderr, /different judges: name one with --judge/);
});
