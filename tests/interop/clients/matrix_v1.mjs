// The official TypeScript client, version 1, checks everything. The job: {"transport":
// stdio|http|sse, "command"|"url"}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { answers, capabilities, check, Heard, readJob } from "./checks.mjs";

const job = await readJob();
const client = new Client({ name: "interop", version: "1.0.0" }, { capabilities });
const heard = new Heard();
for (const schema of [ElicitRequestSchema, CreateMessageRequestSchema, ListRootsRequestSchema]) {
  const method = schema.shape.method.value ?? [...schema.shape.method._def.values][0];
  client.setRequestHandler(schema, answers[method]);
}
for (const schema of [LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema]) {
  client.setNotificationHandler(schema, heard.take);
}
const transport = {
  stdio: () => new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) }),
  http: () => new StreamableHTTPClientTransport(new URL(job.url)),
  sse: () => new SSEClientTransport(new URL(job.url)),
}[job.transport]();
// It keeps the revision to itself, but tells its transport.
let revision = transport.protocolVersion;
const told = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  revision = version;
  told?.(version);
};
await client.connect(transport);
await check({
  client,
  call: (name, args, options) => client.callTool({ name, arguments: args }, CallToolResultSchema, options),
  heard: heard.next,
  watch: (uri) => client.subscribeResource({ uri }),
  log: () => client.setLoggingLevel("debug"),
  revision: () => revision,
});
