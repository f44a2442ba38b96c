// The official TypeScript client, version 2, kept to revision 2026-07-28 unless "mode" is "legacy". The job is that of
// sdk_v1.mjs.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { elicited, offered, readJob, run } from "./job.mjs";

const job = await readJob();
const mode = job.mode === "legacy" ? "legacy" : { pin: "2026-07-28" };
const client = new Client(
  { name: "interop", version: "1.0.0" },
  { capabilities: offered(job), versionNegotiation: { mode } },
);
if (job.elicit) client.setRequestHandler("elicitation/create", elicited(job));
const transport = job.server.url
  ? new StreamableHTTPClientTransport(new URL(job.server.url))
  : new StdioClientTransport({ command: job.server.command[0], args: job.server.command.slice(1) });
await client.connect(transport);
await run(client, job);
