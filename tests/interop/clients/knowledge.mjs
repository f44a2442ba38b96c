// The official TypeScript clients look for passages, read what is cited, and hold the passage against it.
// Reads {"sdk": 1 | 2, "url", "questions": [text…]} and prints for each question
// {"sources": [URI…], "problems": [what is not as it was cited…]}.
import { readJob } from "./job.mjs";

const job = await readJob();
const client = await connect();
const answers = [];
for (const query of job.questions) {
  const { structuredContent, isError, content } = await client.callTool({
    name: "am7_vector_search",
    arguments: { query, limit: 20 },
  });
  const problems = isError ? [JSON.stringify(content)] : [];
  const results = structuredContent?.results ?? [];
  for (const passage of results) problems.push(...(await check(passage)));
  answers.push({ sources: results.map((passage) => passage.sourceUri), problems });
}
await client.close();
process.stdout.write(JSON.stringify(answers));

// The text of the source is read by the URI that the passage cites; the passage stands in it where it says, but for
// the quotes, which searches straighten.
async function check({ sourceUri, text, start, end }) {
  const { contents } = await client.readResource({ uri: sourceUri });
  const source = contents.find(({ mimeType, text }) => mimeType?.startsWith("text/") && text !== undefined);
  if (!source) return [`${sourceUri} has no text`];
  const there = Buffer.from(source.text, "utf8").subarray(start, end).toString("utf8");
  const straight = there.replace(/[\u2018-\u201b]/g, "'").replace(/[\u201c-\u201f]/g, '"');
  if (straight === text) return [];
  return [`${sourceUri} has ${JSON.stringify(straight)} at ${start}, not ${JSON.stringify(text)}`];
}

async function connect() {
  const url = new URL(job.url);
  if (job.sdk === 1) {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "interop", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const versionNegotiation = { mode: { pin: "2026-07-28" } };
  const client = new Client({ name: "interop", version: "1.0.0" }, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(url));
  return client;
}
