#!/usr/bin/env node
// Starts the program `marquetry` of the package for this platform, as if it had been called itself.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const { version } = require("./package.json");

const file = process.platform === "win32" ? "marquetry.exe" : "marquetry";

/** Returns the names of the packages that may fit this machine, the best first. */
function candidates() {
  const name = `@marquetry/${process.platform}-${process.arch}`;
  if (process.platform !== "linux") {
    return [name];
  }
  // The program for glibc starts only with this loader, which Alpine and NixOS lack. The program for musl is static.
  const loaders = { x64: "/lib64/ld-linux-x86-64.so.2", arm64: "/lib/ld-linux-aarch64.so.1" };
  const musl = `${name}-musl`;
  return fs.existsSync(loaders[process.arch] ?? "") ? [name, musl] : [musl];
}

/** Returns the path of the program, or null if no package fits. */
function findProgram(names) {
  for (const name of names) {
    let manifest;
    try {
      manifest = require.resolve(`${name}/package.json`);
    } catch {
      continue;
    }
    const found = require(manifest).version;
    if (found !== version) {
      fail(`${name} has version ${found}, but marquetry has version ${version}; install both again`);
    }
    return manifest.replace(/package\.json$/, `bin/${file}`);
  }
  return null;
}

function fail(problem) {
  console.error(`marquetry: ${problem}`);
  process.exit(1);
}

/** Starts the program as a child, for Node.js that cannot replace itself. */
function run(program) {
  let child;
  // A terminal sends these to the child, too. A second SIGINT would end the program at once, without its grace time.
  const fromTerminal = hasTerminal() ? ["SIGINT", "SIGQUIT"] : [];
  const isWindows = process.platform === "win32";
  const signals = ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR2"];
  // Before the child starts, so that no signal ends this process alone.
  for (const signal of isWindows ? ["SIGINT", "SIGBREAK"] : signals) {
    process.on(signal, () => {
      if (!isWindows && !fromTerminal.includes(signal)) {
        child.kill(signal);
      }
    });
  }
  child = spawn(program, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
  child.on("error", (error) => fail(`failed to start ${program}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exit(code);
    }
    // The caller sees the same signal. If that does not end Node.js, the exit code of shells for it does.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000);
  });
}

/** Returns whether this process has a terminal that sends signals to all its processes. */
function hasTerminal() {
  try {
    fs.closeSync(fs.openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}

const names = candidates();
const program = findProgram(names);
if (program === null) {
  fail(
    `no program is installed for ${process.platform} on ${process.arch}: none of the packages ${names.join(", ")} is here.\n` +
      "  If npm ran with --omit=optional or --no-optional, install marquetry again without it.\n" +
      "  If node_modules comes from another machine, install it on this one.\n" +
      "  Otherwise build the program: cargo install --locked --path crates/server, in a checkout of the repository.",
  );
}
if (process.execve && process.platform !== "win32") {
  // Node.js 22.15 and newer: the program takes over the process, with its descriptors, signals and exit code. Node.js
  // aborts if that fails, without a message.
  try {
    fs.accessSync(program, fs.constants.X_OK);
  } catch (error) {
    fail(`failed to start ${program}: ${error.message}`);
  }
  process.execve(program, [program, ...process.argv.slice(2)], process.env);
} else {
  run(program);
}
