// The official TypeScript client, version 1 (sessions). Reads one job as JSON from standard input:
// {"server": {"command": [program, argument…]} | {"url": …}, "calls": [{"name", "arguments"}],
// "elicit": the answer to each elicitation, if the client offers it}
// and prints {"server", "tools", "results", "asked": [message…]}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { elicited, offered, readJob, run } from "./job.mjs";

const job = await readJob();
const client = new Client({ name: "interop", version: "1.0.0" }, { capabilities: offered(job) });
if (job.elicit) client.setRequestHandler(ElicitRequestSchema, elicited(job));
const transport = job.server.url
  ? new StreamableHTTPClientTransport(new URL(job.server.url))
  : new StdioClientTransport({ command: job.server.command[0], args: job.server.command.slice(1) });
await client.connect(transport);
await run(client, job);
