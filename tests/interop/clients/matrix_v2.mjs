// The official TypeScript client, version 2, checks everything. The job is that of matrix_v1.mjs, and "revision".
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { answers, capabilities, check, Heard, readJob } from "./checks.mjs";

const job = await readJob();
const stateless = job.revision === "2026-07-28";
const client = new Client(
  { name: "interop", version: "1.0.0" },
  { capabilities, versionNegotiation: { mode: stateless ? { pin: job.revision } : "legacy" } },
);
const heard = new Heard();
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
for (const method of ["notifications/message", "notifications/resources/updated"]) {
  client.setNotificationHandler(method, heard.take);
}
const transport = {
  stdio: () => new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) }),
  http: () => new StreamableHTTPClientTransport(new URL(job.url)),
  sse: () => new SSEClientTransport(new URL(job.url)),
}[job.transport]();
await client.connect(transport);
await check({
  client,
  // Without a session the log level travels with each request.
  call: (name, args, options) => {
    const params = { name, arguments: args };
    if (stateless) params._meta = { "io.modelcontextprotocol/logLevel": "debug" };
    return client.callTool(params, options);
  },
  heard: heard.next,
  watch: (uri) => (stateless ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri })),
  log: stateless ? undefined : () => client.setLoggingLevel("debug"),
  revision: () => client.getNegotiatedProtocolVersion(),
});
