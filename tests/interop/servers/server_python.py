"""A server on the official Python SDK, for both eras: `server_python.py stdio|http|sse`; prints its URL."""

import asyncio
import socket
import sys
from typing import Annotated

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, Elicit, Image, ListRoots, MCPServer, Resolve, Sample
from pydantic import BaseModel

TEXT = "Grüße, 世界 🌍"
EVERY_BYTE = bytes(range(256))
server = MCPServer("fixture", version="1.0.0", log_level="ERROR")
given_up_calls = 0


class Said(BaseModel):
    text: str


class Name(BaseModel):
    name: str


def text(said: str) -> list:
    return [types.TextContent(type="text", text=said)]


@server.tool(description=f"echo: {TEXT}")
async def echo(text: str) -> Annotated[types.CallToolResult, Said]:
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content={"text": text})


@server.tool()
async def picture() -> Image:
    return Image(data=EVERY_BYTE, format="png")


@server.tool(structured_output=False)
async def steps(context: Context) -> str:
    for step, name in enumerate(["eins", "zwei", "drei"], 1):
        await context.report_progress(step, 3, name)
    return "done"


@server.tool(structured_output=False)
async def wait() -> str:
    global given_up_calls
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        given_up_calls += 1
        raise
    return "waited"


@server.tool(structured_output=False)
async def given_up() -> str:
    return str(given_up_calls)


@server.tool(structured_output=False)
async def fail() -> types.CallToolResult:
    return types.CallToolResult(content=text("es geht nicht"), is_error=True)


async def name_of() -> Elicit[Name]:
    return Elicit("Wie heißt du?", Name)


async def capital() -> Sample:
    content = types.TextContent(type="text", text="Hauptstadt?")
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=10)


async def places_of() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
async def ask(name: Annotated[Name, Resolve(name_of)]) -> str:
    return f"Hallo {name.name}"


@server.tool(structured_output=False)
async def think(answer: Annotated[types.CreateMessageResult, Resolve(capital)]) -> str:
    return answer.content.text


@server.tool(structured_output=False)
async def places(roots: Annotated[types.ListRootsResult, Resolve(places_of)]) -> str:
    return str(roots.roots[0].uri)


@server.tool(structured_output=False)
async def log(context: Context) -> str:
    await context.log("warning", "grüß dich")
    return "logged"


@server.tool(structured_output=False)
async def touch(context: Context) -> str:
    await context.notify_resource_updated("test://watched")
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


@server.prompt()
async def greet(name: str) -> str:
    return f"Hallo {name}"


@server.completion()
async def complete(_reference, argument, _context):
    names = [name for name in ["Zoë", "Zoltán", "Anna"] if name.startswith(argument.value)]
    return types.Completion(values=names)


def serve(app, path: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/{path}", flush=True)
    config = uvicorn.Config(app, log_level="error")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


how = sys.argv[1]
if how == "stdio":
    server.run()
elif how == "http":
    serve(server.streamable_http_app(), "mcp")
else:
    serve(server.sse_app(), "sse")
