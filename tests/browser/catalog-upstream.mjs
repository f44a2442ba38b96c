// An upstream whose tool `grow` adds a tool, and changes the schema of another. With MANY_TOOLS it
// has that many tools more.

import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
let grown = 0;
const many = Number(process.env.MANY_TOOLS ?? 0);
const text = (it) => ({ content: [{ type: "text", text: it }] });
const field = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });

async function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: "grows", version: "1" },
      };
    case "tools/list":
      return {
        tools: [
          { name: "grow", inputSchema: { type: "object" } },
          { name: "changing", inputSchema: field(grown ? "second" : "first") },
          { name: "steady", inputSchema: field("word") },
          ...Array.from({ length: many }, (_, at) => ({ name: `tool_${at + 1}`, inputSchema: { type: "object" } })),
          ...Array.from({ length: grown }, (_, at) => ({ name: `new_${at + 1}`, inputSchema: { type: "object" } })),
        ],
      };
    case "tools/call":
      if (params.name !== "grow") return text("steady");
      grown += 1;
      setTimeout(() => send({ method: "notifications/tools/list_changed" }), 0);
      return text("grown");
    default:
      return {};
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.id !== undefined && message.method !== undefined) send({ id: message.id, result: await answer(message) });
});
