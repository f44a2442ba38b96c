"""The client of FastMCP checks everything. The job is that of matrix_v1.mjs."""

import asyncio
import json
import sys

import mcp.types as types
from checks import ANSWER, NAME, PLACE, Heard, check, plain
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport


async def elicited(_message, _kind, _params, _context):
    return {"name": NAME}


async def sampled(_messages, _params, _context):
    return ANSWER


class Do:
    def __init__(self, client, heard):
        self.client, self.heard = client, heard

    async def call(self, name, arguments, progress=None):
        return plain(await self.client.call_tool_mcp(name, arguments, progress_handler=progress))

    async def tools(self):
        return plain(await self.client.list_tools_mcp())["tools"]

    async def resources(self):
        return plain(await self.client.list_resources_mcp())["resources"]

    async def templates(self):
        return plain(await self.client.list_resource_templates_mcp())["resourceTemplates"]

    async def read(self, uri):
        return plain(await self.client.read_resource_mcp(uri))["contents"]

    async def prompts(self):
        return plain(await self.client.list_prompts_mcp())["prompts"]

    async def prompt(self, name, arguments):
        return plain(await self.client.get_prompt_mcp(name, arguments))["messages"]

    async def complete(self, prompt, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        result = await self.client.complete_mcp(reference, {"name": argument, "value": value})
        return plain(result)["completion"]["values"]

    async def log(self):
        await self.client.set_logging_level("debug")

    async def cancel(self, tool):
        # It leaves it to its user to know the number of a request; this is the next one's.
        number = self.client.session._request_id
        call = asyncio.create_task(self.client.call_tool_mcp(tool, {}))
        await asyncio.sleep(0.2)
        await self.client.cancel(number, reason="enough")
        call.cancel()

    async def watch(self, uri, touch):
        await self.client.session.subscribe_resource(uri)
        await touch()
        return (await self.heard.next("updated"))["uri"]


async def main() -> None:
    job = json.load(sys.stdin)
    if job["transport"] == "stdio":
        program, *args = job["command"]
        transport = StdioTransport(command=program, args=args)
    elif job["transport"] == "http":
        transport = StreamableHttpTransport(job["url"])
    else:
        transport = SSETransport(job["url"])
    heard = Heard()

    async def logged(message):
        heard.take("message", plain(message))

    async def notified(message):
        root = getattr(message, "root", None)
        if isinstance(root, types.ResourceUpdatedNotification):
            heard.take("updated", plain(root)["params"])

    client = Client(
        transport,
        roots=[PLACE],
        elicitation_handler=elicited,
        sampling_handler=sampled,
        log_handler=logged,
        message_handler=notified,
    )
    async with client:
        await check(Do(client, heard), str(client.initialize_result.protocolVersion))


asyncio.run(main())
