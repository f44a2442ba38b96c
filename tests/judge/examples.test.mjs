// The two usage examples of seed 004, in TypeScript and in Rust, as a user runs them: the server is found, not named.
import assert from "node:assert/strict";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { SDK, TSC, compile } from "./compile.mjs";
import { environment, startModel } from "./model.mjs";
import { AIMOCK, FILESYSTEM, PROGRAM, start, testServer } from "./server.mjs";
import { folder, missing, root } from "./support.mjs";

const run = promisify(execFile);
const built = (name) => join(process.env.MARQUETRY_BUILT ?? join(root, "target/debug"), "examples", name);
const skip = missing(PROGRAM, AIMOCK, FILESYSTEM, TSC, built("file_test"), built("test_suite"));

const scripts = [
  { when: /hello\.txt/, turns: [[["write_file", { path: "hello.txt", content: "Hello, World!" }]]] },
  { when: /test\.md/, turns: [[["write_file", { path: "test.md", content: "# Test" }]]] },
  { when: /package\.json/, turns: [[["read_text_file", { path: "package.json" }]]], answer: "It is called demo." },
  {
    when: /TypeScript/,
    turns: [[["list_directory", { path: "src" }]], [["search_files", { path: "src", pattern: "**/*.ts" }]]],
    answer: "main.ts",
  },
];

/** Whether nothing listens on a port of this machine. */
const isFree = (port) =>
  new Promise((done) => {
    const probe = createServer();
    probe.once("error", () => done(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => done(true)));
  });

/** A port on which nothing listens. */
const freePort = () =>
  new Promise((done) => {
    const probe = createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });

/** A test server on the first free port that discovery tries, on the file server alone. */
async function world(t) {
  const mock = await startModel(t, { scripts });
  const home = await folder(t);
  const files = join(home, "files");
  await mkdir(join(files, "src"), { recursive: true });
  await writeFile(join(files, "package.json"), '{"name": "demo"}');
  await writeFile(join(files, "src/main.ts"), "");
  const config = join(home, "mcp.json");
  const server = { command: process.execPath, args: [FILESYSTEM, files], cwd: files };
  await writeFile(config, JSON.stringify({ mcpServers: { files: server } }));
  for (const port of [3002, 3003, 3004]) {
    if (!(await isFree(port))) continue;
    const args = ["--mcp-config", config, "--model", "openai/gpt-4"];
    const { url } = await testServer(t, home, { port, args, env: environment(mock) });
    assert.equal(url, `http://127.0.0.1:${port}`);
    return { home, files };
  }
  throw new Error("the ports 3002, 3003 and 3004 are taken by other programs");
}

/** Compiles examples of the SDK in a folder where the SDK is installed. Returns the command of each. */
async function compileExamples(home, names) {
  const out = join(home, "out");
  await mkdir(join(home, "node_modules/@marquetry"), { recursive: true });
  await mkdir(out);
  await symlink(SDK, join(home, "node_modules/@marquetry/test-sdk"));
  assert.equal(
    await compile(
      out,
      names.map((name) => join(SDK, "examples", `${name}.ts`)),
    ),
    "",
  );
  return names.map((name) => [process.execPath, join(out, SDK.slice(1), "examples", `${name}.js`)]);
}

const programs = {
  TypeScript: async (home) => {
    const [basic, suite] = await compileExamples(home, ["basic", "suite"]);
    return { basic, suite };
  },
  Rust: async () => ({ basic: [built("file_test")], suite: [built("test_suite")] }),
};

// seed: 004/04
test("a test server listens on port 3002, or on that of TEST_PORT", { skip }, async (t) => {
  const home = await folder(t);
  const args = ["test-server", "--database", join(home, "tests.db")];
  // A program that has the port already, such as a test server of this machine's user, shows which port is wanted, too.
  const isTaken = !(await isFree(3002));
  const outcome = await start(t, args, {}).then(
    ({ url }) => url,
    ({ message }) => message,
  );
  if (isTaken) assert.match(outcome, /failed to listen on 127\.0\.0\.1:3002/);
  else assert.equal(outcome, "http://127.0.0.1:3002");
  const port = await freePort();
  const { url } = await start(t, args, { TEST_PORT: String(port) });
  assert.equal(url, `http://127.0.0.1:${port}`);
  assert.equal((await (await fetch(`${url}/api/test/health`)).json()).testing, true);
  await assert.rejects(start(t, args, { TEST_PORT: "http" }), /TEST_PORT is "http"; expected a port/);
});

for (const [language, prepare] of Object.entries(programs)) {
  // seed: 004/23
  // seed: 004/24
  test(`the usage examples run in ${language}`, { skip }, async (t) => {
    const { home, files } = await world(t);
    const { basic, suite } = await prepare(home);
    const output = async ([program, ...args]) => (await run(program, args, { env: { PATH: process.env.PATH } })).stdout;
    assert.match(await output(basic), /^Test PASSED\nVerdict: The judge says yes\./);
    assert.equal(await readFile(join(files, "hello.txt"), "utf8"), "Hello, World!");
    const names = ["File Operations", "File Reading", "Directory Operations"];
    assert.equal(
      await output(suite),
      `${names.map((name) => `${name}: PASS\n`).join("")}\nSuite Results: 3/3 tests passed\n`,
    );
    assert.equal(await readFile(join(files, "test.md"), "utf8"), "# Test");
  });
}

test("the example of context blocks runs, and the README shows it", { skip: missing(TSC) }, async (t) => {
  const [[program, script]] = await compileExamples(await folder(t), ["context"]);
  const { stdout } = await run(program, [script]);
  const lines = [
    "What did we choose?",
    "1 citation: parser",
    '<mcp:resource uri="am7://media/abc-123" tags="portrait" />',
  ];
  assert.equal(stdout, lines.map((line) => `${line}\n`).join(""));
  const [example, readme] = await Promise.all(
    ["examples/context.ts", "README.md"].map((name) => readFile(join(SDK, name), "utf8")),
  );
  const [, code] = example.split(/(?<=^\/\/.*\n)/);
  assert.ok(readme.includes(`\`\`\`ts\n${code}\`\`\``), "the README differs from examples/context.ts");
});
