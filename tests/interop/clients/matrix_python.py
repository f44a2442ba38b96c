"""The official Python client checks everything. The job is that of matrix_v2.mjs."""

import asyncio
import json
import sys
import warnings

import mcp_types as types
from checks import ANSWER, NAME, PLACE, Heard, check, plain
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")


async def elicited(_context, _params):
    return types.ElicitResult(action="accept", content={"name": NAME})


async def sampled(_context, _params):
    content = types.TextContent(type="text", text=ANSWER)
    return types.CreateMessageResult(role="assistant", model="test", content=content)


async def rooted(_context):
    return types.ListRootsResult(roots=[types.Root(uri=PLACE)])


class Do:
    def __init__(self, client, heard, stateless):
        self.client, self.heard, self.stateless = client, heard, stateless

    async def call(self, name, arguments, progress=None):
        return plain(await self.client.call_tool(name, arguments, progress_callback=progress))

    async def tools(self):
        return plain(await self.client.list_tools())["tools"]

    async def resources(self):
        return plain(await self.client.list_resources())["resources"]

    async def templates(self):
        return plain(await self.client.list_resource_templates())["resourceTemplates"]

    async def read(self, uri):
        return plain(await self.client.read_resource(uri))["contents"]

    async def prompts(self):
        return plain(await self.client.list_prompts())["prompts"]

    async def prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))["messages"]

    async def complete(self, prompt, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        result = await self.client.complete(reference, {"name": argument, "value": value})
        return plain(result)["completion"]["values"]

    async def log(self):
        if not self.stateless:
            await self.client.set_logging_level("debug")

    async def cancel(self, tool):
        call = asyncio.create_task(self.client.call_tool(tool, {}))
        await asyncio.sleep(0.2)
        call.cancel()

    async def watch(self, uri, touch):
        if not self.stateless:
            await self.client.subscribe_resource(uri)
            await touch()
            return (await self.heard.next("updated"))["uri"]
        async with self.client.listen(resource_subscriptions=[uri]) as events:
            await touch()
            return (await asyncio.wait_for(anext(events), 3)).uri


async def main() -> None:
    job = json.load(sys.stdin)
    stateless = job["revision"] == "2026-07-28"
    if job["transport"] == "stdio":
        program, *args = job["command"]
        transport = stdio_client(StdioServerParameters(command=program, args=args))
    elif job["transport"] == "http":
        transport = streamable_http_client(job["url"])
    else:
        transport = sse_client(job["url"])
    heard = Heard()

    async def logged(params):
        heard.take("message", plain(params))

    async def notified(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.take("updated", plain(message)["params"])

    client = Client(
        transport,
        mode=job["revision"] if stateless else "legacy",
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=rooted,
        logging_callback=logged,
        log_level="debug",
        message_handler=notified,
        cache=None,
    )
    async with client:
        await check(Do(client, heard, stateless), client.protocol_version)


asyncio.run(main())
