// A server on the official TypeScript SDK, version 1: `node server_v1.mjs stdio|http|sse`; prints its URL.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { completable } from "@modelcontextprotocol/sdk/server/completable.js";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListRootsResultSchema,
  SubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { question, register, steps, text, wait } from "./surface.mjs";

function fixture() {
  const server = new McpServer(
    { name: "fixture", version: "1.0.0" },
    { capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  server.promptSchema = (z, completable, names) => ({ name: completable(z.string(), names) });
  const tool = register(server, z, { ResourceTemplate, completable });
  tool("steps", (_, extra) => steps(extra._meta?.progressToken, extra.sendNotification));
  tool("wait", (_, { signal }) => wait(signal));
  tool("ask", async (_, { sendRequest }) => {
    const answer = await sendRequest({ method: "elicitation/create", params: question.elicit }, ElicitResultSchema);
    return text(`Hallo ${answer.content.name}`);
  });
  tool("think", async (_, { sendRequest }) => {
    const answer = await sendRequest(
      { method: "sampling/createMessage", params: question.sample },
      CreateMessageResultSchema,
    );
    return text(answer.content.text);
  });
  tool("places", async (_, { sendRequest }) =>
    text((await sendRequest({ method: "roots/list" }, ListRootsResultSchema)).roots[0].uri),
  );
  tool("log", async (_, { sendNotification }) => {
    await sendNotification({ method: "notifications/message", params: { level: "warning", data: "grüß dich" } });
    return text("logged");
  });
  tool("touch", async () => {
    await server.server.sendResourceUpdated({ uri: "test://watched" });
    return text("touched");
  });
  server.server.setRequestHandler(SubscribeRequestSchema, async () => ({}));
  return server;
}

const how = process.argv[2];
const sessions = new Map();
async function http(request, response) {
  let transport = sessions.get(request.headers["mcp-session-id"]);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    await fixture().connect(transport);
  }
  await transport.handleRequest(request, response);
}
async function sse(request, response) {
  if (request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    await fixture().connect(transport);
  } else {
    const id = new URL(request.url, "http://localhost").searchParams.get("sessionId");
    const transport = sessions.get(id);
    if (transport) await transport.handlePostMessage(request, response);
    else response.writeHead(404).end();
  }
}
if (how === "stdio") {
  await fixture().connect(new StdioServerTransport());
} else {
  const server = createServer(how === "http" ? http : sse).listen(0, "127.0.0.1", () =>
    console.log(`http://127.0.0.1:${server.address().port}/${how === "http" ? "mcp" : "sse"}`),
  );
}
