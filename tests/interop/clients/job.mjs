// What both TypeScript clients do once they are connected.
export async function readJob() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

export async function run(client, job) {
  const { tools } = await client.listTools();
  const results = [];
  for (const call of job.calls) results.push(await client.callTool(call));
  const server = client.getServerVersion()?.name;
  await client.close();
  process.stdout.write(JSON.stringify({ server, tools: tools.map((tool) => tool.name), results }));
}
