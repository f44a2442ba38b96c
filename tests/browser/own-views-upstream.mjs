// An upstream whose answers are large: they become artifacts.
import { createInterface } from "node:readline";

const CSV = `id,city\n${Array.from({ length: 9_000 }, (_, index) => `${index},"Town, ${index % 7}"`).join("\n")}\n`;

const METHODS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "large", version: "1" },
  }),
  "tools/list": () => ({ tools: [{ name: "table", description: "Gives a table.", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: CSV }] }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const work = METHODS[method];
  const answer = work ? { result: work(params ?? {}) } : { error: { code: -32601, message: `no method ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});
