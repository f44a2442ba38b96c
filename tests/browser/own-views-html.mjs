// Our Views as the server gives them: by resources/read, to an official client that shows Views.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { program } from "./support.mjs";

export const UI_EXTENSION = "io.modelcontextprotocol/ui";
export const UI_MIME_TYPE = "text/html;profile=mcp-app";

/** Starts the server on a pipe, with a client. `servers` are those of an `mcp.json`. */
export async function startOnPipe({ config = "", servers = {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "marquetry-views-"));
  writeFileSync(join(folder, "marquetry.toml"), config, { mode: 0o600 });
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers }), { mode: 0o600 });
  const transport = new StdioClientTransport({
    command: program,
    args: ["stdio", "--config", join(folder, "marquetry.toml"), "--mcp-config", join(folder, "mcp.json")],
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      XDG_DATA_HOME: folder,
      XDG_STATE_HOME: folder,
      XDG_CONFIG_HOME: folder,
    },
    stderr: "pipe",
  });
  let log = "";
  transport.stderr?.on("data", (chunk) => (log += chunk));
  const client = new Client(
    { name: "test-host", version: "1.0.0" },
    { capabilities: { extensions: { [UI_EXTENSION]: { mimeTypes: [UI_MIME_TYPE] } } } },
  );
  await client.connect(transport).catch((error) => {
    throw new Error(`${error.message}\n${log}`);
  });
  const close = async () => {
    await client.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { client, close, log: () => log };
}

/** Reads a View. */
export async function readView(client, name) {
  const { contents } = await client.readResource({ uri: `ui://marquetry/${name}.html` });
  return contents[0];
}

/** The HTML of our Views, by name: "diagram", "search" and "artifacts". */
export async function ownViews() {
  const { client, close } = await startOnPipe();
  const names = ["diagram", "search", "artifacts"];
  const pages = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, (await readView(client, name)).text])),
  );
  await close();
  return { html: (name) => pages[name], close: async () => {} };
}
