// `MCPAppsConformanceTest` of MCPJam against the server: its own Views, and those of an upstream,
// over HTTP and over a pipe.

// Its client reports to a host of its authors otherwise. It reads this when it is loaded.
process.env.DO_NOT_TRACK = "1";
process.env.MCPJAM_TELEMETRY_DISABLED = "1";

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { exampleServer, program, startServer } from "../support.mjs";

const { MCPAppsConformanceTest } = await import("@mcpjam/sdk");

// Requests to hosts other than this machine fail, so that a new version that asks for one is seen.
const direct = globalThis.fetch;
globalThis.fetch = (input, options) => {
  const { hostname } = new URL(input.url ?? input);
  assert.equal(hostname, "127.0.0.1", `a request to ${hostname}`);
  return direct(input, options);
};

const servers = { budget: exampleServer("budget-allocator") };
/** The first list must have the tools of the upstream, however busy the machine is. */
const config = "[gateway]\nlist_wait_ms = 50000\n";

/** Fails unless each of the seven checks passed, and looked at our three Views and at that of the upstream. */
async function passes(config) {
  const found = await new MCPAppsConformanceTest(config).run();
  const told = found.checks.map(({ id, status, error, warnings = [] }) =>
    [id, status, error?.message ?? "", ...warnings].join(" ").trim(),
  );
  assert.deepEqual(
    told,
    [
      "ui-tools-present",
      "ui-tool-metadata-valid",
      "ui-tool-input-schema-valid",
      "ui-listed-resources-valid",
      "ui-resources-readable",
      "ui-resource-contents-valid",
      "ui-resource-meta-valid",
    ].map((id) => `${id} passed`),
  );
  assert.equal(found.passed, true);
  assert.equal(found.discovery.checkedUiResourceCount, 4);
  assert.ok(found.discovery.uiToolCount >= 6, `${found.discovery.uiToolCount} tools have a View`);
}

test("seven of seven over HTTP", { timeout: 60_000 }, async () => {
  const server = await startServer({ config, servers });
  try {
    await passes({ url: `${server.url}/mcp` });
  } finally {
    await server.stop();
  }
});

test("seven of seven over a pipe", { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "marquetry-conformance-"));
  try {
    writeFileSync(join(folder, "marquetry.toml"), config, { mode: 0o600 });
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers }), { mode: 0o600 });
    await passes({
      command: program,
      args: ["stdio", "--config", join(folder, "marquetry.toml"), "--mcp-config", join(folder, "mcp.json")],
      env: {
        PATH: process.env.PATH,
        HOME: folder,
        XDG_DATA_HOME: folder,
        XDG_STATE_HOME: folder,
        XDG_CONFIG_HOME: folder,
      },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
