#!/usr/bin/env python3
"""Records the terminal session that the README shows: docs/images/session.svg.

    cargo build -p marquetry
    python3 docs/images/session.py target/debug/marquetry

The script runs the commands below in an empty folder with an empty home directory, and draws what they print. Nothing is
edited: long output is shortened by the commands themselves. It needs Python 3, curl, jq and port 3001, and uses no network but loopback.
"""

import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

# An MCP server whose one tool answers with a log of 5 MB.
LOGS = """
import json, sys

LOG = "".join(f"12:{n // 2000:02}:{n // 33 % 60:02} request {n} answered in {n % 97} ms\\n" for n in range(120_000))
RESULTS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "logs", "version": "1"}},
    "tools/list": {"tools": [{"name": "read_log", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": LOG}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        known = request["method"] in RESULTS
        outcome = {"result": RESULTS[request["method"]]} if known else {"error": {"code": -32601, "message": "unknown method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | outcome), flush=True)
"""

FILES = {
    "logs.py": LOGS,
    "mcp.json": '{"mcpServers": {"logs": {"command": "python3", "args": ["logs.py"]}}}\n',
    "notes/bread.md": "# Bread\n\nBread is made of flour, water and salt.\n\n## Sourdough\n\nA starter takes five days. Feed it once a day.\n",
    "notes/tea.md": "# Tea\n\nGreen tea wants water of 75 degrees, black tea boiling water.\n",
}

URL = "http://127.0.0.1:3001"

STEPS = [
    ("Put Marquetry in front of the servers of an mcp.json.", None),
    ("cat mcp.json", "run"),
    ("marquetry serve --mcp-config mcp.json &", "serve"),
    ("A tool answers with 5 MB. The model sees the first 64 KiB and this notice:", None),
    (f"curl -s {URL}/mcp/v1/tools/call -d '{{\"name\": \"logs__read_log\"}}' > answer.json", "run"),
    ("jq -r .content[1].text answer.json | fold -sw 100", "run"),
    ("It reads on where it needs to:", None),
    (
        f"""curl -s {URL}/mcp/v1/tools/call -d '{{"name": "read_artifact", "arguments": {{
    "name": "ARTIFACT", "start_line": 119999}}}}' | jq -r .content[0].text""",
        "run",
    ),
    ("Documents are found by words and by meaning.", None),
    ("marquetry index notes", "run"),
    ("marquetry search how long does a starter need --limit 1", "run"),
]

WIDTH, LINE, LEFT, TOP = 900, 19, 18, 46
COLOURS = {"comment": "#8b949e", "prompt": "#7ee787", "typed": "#f0f6fc", "output": "#c9d1d9"}


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        tools = pathlib.Path(folder, "bin")
        tools.mkdir()
        (tools / "marquetry").symlink_to(program)
        env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": folder, "LANG": "C.UTF-8"}
        server = None
        try:
            for text, kind in STEPS:
                if kind is None:
                    lines += [[], [("comment", f"# {text}")]]
                    continue
                if "ARTIFACT" in text:
                    answer = json.loads(pathlib.Path(folder, "answer.json").read_text())
                    saved = answer["_meta"]["marquetry/capture"]["save"]["artifacts"]
                    text = text.replace("ARTIFACT", saved[0]["name"])
                first, *more = text.split("\n")
                lines.append([("prompt", "$ "), ("typed", first)])
                lines += [[("typed", line)] for line in more]
                if kind == "serve":
                    command = text.removesuffix("&").split()
                    server = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
                    # The greeting, and nothing of the log that follows.
                    output = "".join(server.stderr.readline() for _ in range(3))
                    wait_until_ready()
                else:
                    done = subprocess.run(text, shell=True, cwd=folder, env=env, text=True, check=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    output = done.stdout
                output = output.replace(os.path.realpath(folder), "/home/me").replace(folder, "/home/me")
                lines += [[("output", line)] for line in output.rstrip("\n").split("\n") if output.strip()]
        finally:
            if server:
                server.terminate()
                server.wait(timeout=10)
    pathlib.Path(__file__).with_name("session.svg").write_text(drawn(lines[1:]))


def wait_until_ready():
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{URL}/readyz", timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"error: {URL}/readyz does not answer")


def drawn(lines):
    height = TOP + LINE * len(lines) + 14
    rows = []
    for index, line in enumerate(lines):
        spans = "".join(f'<tspan fill="{COLOURS[kind]}">{html.escape(text)}</tspan>' for kind, text in line)
        if spans:
            rows.append(f'<text x="{LEFT}" y="{TOP + LINE * (index + 1) - 6}" xml:space="preserve">{spans}</text>')
    dots = "".join(
        f'<circle cx="{LEFT + 6 + 20 * i}" cy="20" r="6" fill="{colour}"/>' for i, colour in enumerate(["#ff5f56", "#ffbd2e", "#27c93f"])
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">
<title id="title">A terminal session with Marquetry</title>
<!-- Recorded by docs/images/session.py, which says how to record it again. -->
<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117" stroke="#30363d"/>
{dots}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13.5">
{chr(10).join(rows)}
</g>
</svg>
"""


if __name__ == "__main__":
    main()
