"""A server on FastMCP: `server_fastmcp.py stdio|http|sse`; prints its URL."""

import asyncio
import socket
import sys
from dataclasses import dataclass

import mcp.types as types
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image

TEXT = "Grüße, 世界 🌍"
EVERY_BYTE = bytes(range(256))
SAID = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
server = FastMCP("fixture")
given_up_calls = 0


@dataclass
class Name:
    name: str


@server.tool(description=f"echo: {TEXT}", output_schema=SAID)
async def echo(text: str) -> ToolResult:
    return ToolResult(content=text, structured_content={"text": text})


@server.tool
async def picture() -> Image:
    return Image(data=EVERY_BYTE, format="png")


@server.tool
async def steps(context: Context) -> str:
    for step, name in enumerate(["eins", "zwei", "drei"], 1):
        await context.report_progress(step, 3, name)
    return "done"


@server.tool
async def wait() -> str:
    global given_up_calls
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        given_up_calls += 1
        raise
    return "waited"


@server.tool
async def given_up() -> str:
    return str(given_up_calls)


@server.tool
async def fail() -> str:
    raise ToolError("es geht nicht")


@server.tool
async def ask(context: Context) -> str:
    answer = await context.elicit("Wie heißt du?", response_type=Name)
    return f"Hallo {answer.data.name}"


@server.tool
async def think(context: Context) -> str:
    return (await context.sample("Hauptstadt?", max_tokens=10)).text


@server.tool
async def places(context: Context) -> str:
    return str((await context.list_roots())[0].uri)


@server.tool
async def log(context: Context) -> str:
    await context.session.send_log_message("warning", "grüß dich", related_request_id=context.request_id)
    return "logged"


@server.tool
async def touch(context: Context) -> str:
    await context.session.send_resource_updated("test://watched")
    return "touched"


@server.resource("test://text")
async def text_resource() -> str:
    return TEXT


@server.resource("test://watched")
async def watched() -> str:
    return TEXT


@server.resource("test://blob", mime_type="application/octet-stream")
async def blob() -> bytes:
    return EVERY_BYTE


@server.resource("test://items/{id}")
async def item(id: str) -> str:
    return f"items/{id}"


@server.prompt
async def greet(name: str) -> str:
    return f"Hallo {name}"


# FastMCP has no decorators for these; the server below it does.
@server._mcp_server.completion()
async def complete(_reference, argument, _context):
    names = [name for name in ["Zoë", "Zoltán", "Anna"] if name.startswith(argument.value)]
    return types.Completion(values=names)


@server._mcp_server.subscribe_resource()
async def subscribe(_uri):
    pass


how = sys.argv[1]
if how == "stdio":
    server.run(show_banner=False, log_level="ERROR")
else:
    listener = socket.create_server(("127.0.0.1", 0))
    path = "/mcp" if how == "http" else "/sse"
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    app = server.http_app(path=path, transport=how)
    config = uvicorn.Config(app, log_level="error")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
