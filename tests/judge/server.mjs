// The program under test: `marquetry test-server`, `marquetry serve`, `marquetry test`.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { inPackages, root } from "./support.mjs";

export const PROGRAM = join(process.env.MARQUETRY_BUILT ?? join(root, "target/debug"), "marquetry");
export const FILESYSTEM = inPackages("@modelcontextprotocol/server-filesystem/dist/index.js");
export const AIMOCK = inPackages("@copilotkit/aimock/package.json");

/** The file server on a folder, as a test names it. */
export const fileServer = (folder) => ({
  type: "stdio",
  name: "files",
  command: process.execPath,
  args: [FILESYSTEM, folder],
});

/** The same server with a process beside it that does not end with its input. */
export const stubbornServer = (folder) => ({
  ...fileServer(folder),
  command: "sh",
  args: ["-c", 'sleep 600 & exec "$0" "$@"', process.execPath, FILESYSTEM, folder],
});

/** All descendants of a process. */
export async function descendantsOf(pid) {
  const children = await childrenOf(pid);
  return (await Promise.all(children.map(async (child) => [child, ...(await descendantsOf(child))]))).flat();
}

/** The variables of each program. */
export const base = () => {
  const { PATH, HOME } = process.env;
  return { PATH, HOME };
};

/** Starts the program, and waits for the line that names its URL. */
export async function start(t, args, env) {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: cargo build -p marquetry`);
  const child = spawn(PROGRAM, args, { env: { ...base(), ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const url = await new Promise((found, failed) => {
    const listen = (chunk) => {
      said += chunk;
      const [url] = said.match(/http:\/\/127\.0\.0\.1:\d+/) ?? [];
      if (url) found(url);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("exit", (code) => failed(new Error(`the program ended with ${code}: ${said}`)));
  });
  const ended = new Promise((done) => child.on("exit", (code, signal) => done({ code, signal })));
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return { url, child, ended, said: () => said };
}

export const testServer = (t, folder, { port = 0, args = [], env = {} } = {}) =>
  start(t, ["test-server", "--port", String(port), "--database", join(folder, "tests.db"), ...args], env);

/** Runs the program to its end. */
export async function run(args, { env = {}, cwd } = {}) {
  const child = spawn(PROGRAM, args, { env: { ...base(), ...env }, cwd, stdio: ["ignore", "pipe", "pipe"] });
  const out = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].on("data", (chunk) => (out[name] += chunk));
  const code = await new Promise((done) => child.on("exit", done));
  return { code, ...out };
}

/** Processes whose parent this is; each thread has a list of those that it has started. */
export async function childrenOf(pid) {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, "utf8").catch(() => ""));
  return (await Promise.all(lists)).join(" ").trim().split(/\s+/).filter(Boolean).map(Number);
}

export async function until(what, check, limit = 15_000) {
  const end = Date.now() + limit;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
