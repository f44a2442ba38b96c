import { createServer } from "node:http";

/** Serves `routes` ("METHOD /path" to handler) on loopback until `close`; `seen` has the requests. */
export async function serve(routes) {
  const seen = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { pathname, searchParams } = new URL(request.url, "http://x");
    seen.push({
      method: request.method,
      path: pathname,
      query: Object.fromEntries(searchParams),
      body,
      headers: request.headers,
    });
    const route = routes[`${request.method} ${pathname}`];
    if (!route) return response.writeHead(404).end("not here");
    await route(response, { body, query: searchParams });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    seen,
    close: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
}

export const json =
  (value, status = 200) =>
  (response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

export const HEALTH = { testing: true, connections: 0, database: true, version: "0.1.0" };

export const testServer = (routes = {}) => serve({ "GET /api/test/health": json(HEALTH), ...routes });
