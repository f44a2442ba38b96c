"""What both Python clients check at a server with the surface of fixture/main.rs."""

import asyncio
import base64
import json
import sys

TEXT = "Grüße, 世界 🌍"
EVERY_BYTE = base64.b64encode(bytes(range(256))).decode()
NAME, PLACE, ANSWER = "Zoë", "file:///home/zo%C3%AB", "Paris 🗼"


def plain(value):
    """A result as JSON has it."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def same(got, want):
    assert got == want, f"{got!r} is not {want!r}"


class Heard:
    """Notifications as they come, and waiting for one of them."""

    def __init__(self):
        self.queues = {}

    def take(self, kind, params):
        self.queues.setdefault(kind, asyncio.Queue()).put_nowait(params)

    async def next(self, kind):
        return await asyncio.wait_for(self.queues.setdefault(kind, asyncio.Queue()).get(), 5)


async def check(do, revision):
    """`do` has the client's operations; prints feature → "ok" or what went wrong, and the revision spoken."""

    async def text(name, **options):
        return (await do.call(name, {}, **options))["content"][0]["text"]

    async def tools():
        echo = next(tool for tool in await do.tools() if tool["name"] == "echo")
        same(echo["description"], f"echo: {TEXT}")

    async def structured():
        result = await do.call("echo", {"text": TEXT})
        same(result["content"][0]["text"], TEXT)
        same(result["structuredContent"], {"text": TEXT})

    async def tool_error():
        result = await do.call("fail", {})
        same((result["isError"], result["content"][0]["text"]), (True, "es geht nicht"))

    async def binary():
        same((await do.call("picture", {}))["content"][0]["data"], EVERY_BYTE)
        same((await do.read("test://blob"))[0]["blob"], EVERY_BYTE)

    async def resources():
        uris = sorted(resource["uri"] for resource in await do.resources())
        same(uris, ["test://blob", "test://text", "test://watched"])
        same((await do.read("test://text"))[0]["text"], TEXT)

    async def templates():
        same((await do.templates())[0]["uriTemplate"], "test://items/{id}")
        same((await do.read("test://items/7"))[0]["text"], "items/7")

    async def prompts():
        same((await do.prompts())[0]["name"], "greet")
        same((await do.prompt("greet", {"name": NAME}))[0]["content"]["text"], f"Hallo {NAME}")

    async def complete():
        same(await do.complete("greet", "name", "Zo"), ["Zoë", "Zoltán"])

    async def progress():
        told = []

        async def take(progress, total, message):
            told.append((progress, total, message))

        await text("steps", progress=take)
        same(told, [(1, 3, "eins"), (2, 3, "zwei"), (3, 3, "drei")])

    async def elicit():
        same(await text("ask"), f"Hallo {NAME}")

    async def sample():
        same(await text("think"), ANSWER)

    async def roots():
        same(await text("places"), PLACE)

    async def log():
        await do.log()
        await text("log")
        message = await do.heard.next("message")
        same((message["level"], message["data"]), ("warning", "grüß dich"))

    async def cancel():
        before = int(await text("given_up"))
        await do.cancel("wait")
        for _ in range(50):
            if int(await text("given_up")) > before:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the server does not know")

    async def updates():
        async def touch():
            await text("touch")

        same(await do.watch("test://watched", touch), "test://watched")

    checks = {
        "tools": tools,
        "structured": structured,
        "tool error": tool_error,
        "binary": binary,
        "resources": resources,
        "templates": templates,
        "prompts": prompts,
        "complete": complete,
        "progress": progress,
        "elicit": elicit,
        "sample": sample,
        "roots": roots,
        "log": log,
        "cancel": cancel,
        "updates": updates,
    }
    features = {}
    for name, one in checks.items():
        try:
            await asyncio.wait_for(one(), 10)
            features[name] = "ok"
        except Exception as error:
            features[name] = f"failed: {type(error).__name__} {error}"
    sys.stdout.write(json.dumps({"revision": revision, "features": features}))
    sys.stdout.flush()
