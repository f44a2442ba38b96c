"""The official Python client. Reads the job that sdk_v1.mjs describes, with "mode" ("legacy", or a stateless revision)."""

import asyncio
import json
import sys

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    job = json.load(sys.stdin)
    server = job["server"]
    if "url" in server:
        transport = streamable_http_client(server["url"])
    else:
        program, *args = server["command"]
        transport = stdio_client(StdioServerParameters(command=program, args=args))
    asked = []

    async def elicited(_context, params):
        asked.append(params.message)
        return types.ElicitResult(**job["elicit"])

    callback = elicited if job.get("elicit") else None
    async with Client(transport, mode=job["mode"], elicitation_callback=callback) as client:
        tools = (await client.list_tools()).tools
        results = []
        for call in job["calls"]:
            result = await client.call_tool(call["name"], call["arguments"])
            results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        info = client.server_info
        names = [tool.name for tool in tools]
        answer = {"server": info.name if info else None, "tools": names, "results": results, "asked": asked}
    json.dump(answer, sys.stdout)


asyncio.run(main())
