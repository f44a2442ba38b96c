// A server on the official TypeScript SDK, version 2, for both eras: `node server_v2.mjs stdio|http`; prints its URL.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import {
  completable,
  createMcpHandler,
  inputRequired,
  inputResponse,
  isLegacyRequest,
  McpServer,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";
import { question, register, steps, text, wait } from "./surface.mjs";

let handler;
function fixture() {
  const server = new McpServer(
    { name: "fixture", version: "1.0.0" },
    { capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  const tool = register(server, z, { ResourceTemplate, completable });
  tool("steps", (_, { mcpReq }) => steps(mcpReq._meta?.progressToken, mcpReq.notify));
  tool("wait", (_, { mcpReq }) => wait(mcpReq.signal));
  // In a session the SDK asks by itself what the result says is to be asked.
  const asking = (name, request, answered) =>
    tool(name, async (_, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, "question");
      return answer.kind === "missing"
        ? inputRequired({ inputRequests: { question: request() } })
        : text(answered(answer));
    });
  asking(
    "ask",
    () => inputRequired.elicit(question.elicit),
    (answer) => `Hallo ${answer.content.name}`,
  );
  asking(
    "think",
    () => inputRequired.createMessage(question.sample),
    (answer) => answer.result.content.text,
  );
  asking(
    "places",
    () => inputRequired.listRoots(),
    (answer) => answer.roots[0].uri,
  );
  tool("log", async (_, { mcpReq }) => {
    await mcpReq.log("warning", "grüß dich");
    return text("logged");
  });
  tool("touch", async () => {
    if (handler) handler.notify.resourceUpdated("test://watched");
    await server.server.sendResourceUpdated({ uri: "test://watched" }).catch(() => {});
    return text("touched");
  });
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(fixture);
} else {
  handler = createMcpHandler(fixture, { legacy: "reject" });
  const modern = toNodeHandler(handler);
  const sessions = new Map();
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
    if (!(await isLegacyRequest(await toWebRequest(request, body), body))) return modern(request, response, body);
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await fixture().connect(transport);
    }
    await transport.handleRequest(request, response, body);
  }).listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}
