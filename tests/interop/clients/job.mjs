// What both TypeScript clients do once they are connected.
export async function readJob() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

const asked = [];

/** The capabilities of a client with this job. */
export const offered = (job) => (job.elicit ? { elicitation: {} } : {});

/** Answers each elicitation as the job says. */
export const elicited = (job) => (request) => {
  asked.push(request.params.message);
  return job.elicit;
};

export async function run(client, job) {
  const { tools } = await client.listTools();
  const results = [];
  for (const call of job.calls) results.push(await client.callTool(call));
  const server = client.getServerVersion()?.name;
  await client.close();
  process.stdout.write(JSON.stringify({ server, tools: tools.map((tool) => tool.name), results, asked }));
}
