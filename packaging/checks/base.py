"""The parts that all checks share: where the packages are, and what an installed program must do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from formats.program import Target, read_target

RELEASE = Path(__file__).resolve().parents[1] / "release"


class Skip(Exception):
    """A check cannot run here. `ci_has_it` says that .ci/run installs what is missing."""

    def __init__(self, reason: str, ci_has_it: bool = False) -> None:
        super().__init__(reason)
        self.ci_has_it = ci_has_it


@dataclass(frozen=True)
class Packages:
    """A folder of packages that packaging/release made, and the program that it packed."""

    folder: Path
    binary: Path
    version: str

    @property
    def target(self) -> Target:
        return read_target(self.binary)

    def find(self, pattern: str) -> Path:
        found = sorted(self.folder.glob(pattern))
        if not found:
            raise Skip(f"{self.folder} has no {pattern}; packaging/release makes it")
        assert len(found) == 1, f"{self.folder} has several {pattern}: remove the old ones"
        return found[0]


def needs(program: str, install: str, ci_has_it: bool = False) -> str:
    """Returns the path of a program, or skips the check."""
    found = shutil.which(program)
    if found is None:
        raise Skip(f"`{program}` is not installed ({install})", ci_has_it)
    return found


def run(command: list, code: int = 0, **options) -> str:
    """Runs a command that must exit with `code`, and returns what it wrote to both streams."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 300} | options
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    shown = " ".join(map(str, command))
    assert done.returncode == code, f"{shown}: exit code {done.returncode}, not {code}:\n{done.stdout[-2000:]}"
    return done.stdout


def refuse(command: list, *parts: str, **options) -> None:
    """Runs a command that must fail, with all `parts` in its output."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 300} | options
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    shown = " ".join(map(str, command))
    assert done.returncode != 0, f"{shown}: succeeded:\n{done.stdout[-2000:]}"
    for part in parts:
        assert part in done.stdout, f"{shown}: no {part!r} in:\n{done.stdout[-2000:]}"


def empty_home(folder: Path, **variables: str) -> dict[str, str]:
    """Returns an environment in which nothing is configured, stored or cached."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    # Programs of Windows do not start without its own variables.
    environment = dict(os.environ) if os.name == "nt" else {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environment |= {"HOME": str(home), "USERPROFILE": str(home)}
    # The packages must work from their files alone, without a network.
    environment |= {"npm_config_offline": "true", "npm_config_update_notifier": "false", "UV_OFFLINE": "1"}
    return environment | variables


def exercise(
    command: list,
    packages: Packages,
    environment: dict[str, str],
    settings: str = "defaults; no file was found",
    **options,
) -> None:
    """Runs an installed program as users do: its version, a check of the settings, and a call over stdio."""
    version = run([*command, "--version"], env=environment, **options).strip().splitlines()
    # `npx` and `uvx` may write lines of their own first.
    assert version[-1] == f"marquetry {packages.version}", version
    checked = run([*command, "check"], env=environment, **options)
    assert settings in checked, checked
    tools, answer = call_over_stdio([*command, "stdio"], environment, **options)
    assert "encodePlantUML" in tools, tools
    assert "plantuml" in json.dumps(answer), answer


def call_over_stdio(command: list, environment: dict[str, str], **options) -> tuple[list[str], dict]:
    """Returns the names of the tools, and the result of a call of `encodePlantUML`."""
    client = StdioClient(command, environment, **options)
    with client:
        listed = client.request("tools/list", {})
        arguments = {"plantumlCode": "A -> B"}
        answer = client.request("tools/call", {"name": "encodePlantUML", "arguments": arguments})
    assert client.process.returncode == 0, f"exit code {client.process.returncode} after the end of the input"
    return [tool["name"] for tool in listed["tools"]], answer


class StdioClient:
    """A small MCP client: one request at a time, over the standard input and output of a program."""

    def __init__(self, command: list, environment: dict[str, str], **options) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, **pipes, **options)
        self.id = 0

    def __enter__(self) -> StdioClient:
        about = {"clientInfo": {"name": "packaging-test", "version": "1"}, "capabilities": {}}
        self.request("initialize", {"protocolVersion": "2025-11-25", **about})
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_) -> None:
        try:
            # The end of the input ends the server.
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def request(self, method: str, params: dict) -> dict:
        self.id += 1
        self._send({"id": self.id, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.id and "method" not in message:
                assert "error" not in message, message
                return message["result"]
        raise AssertionError(f"no answer to {method}: {self.process.stderr.read()[-2000:]!r}")

    def _send(self, message: dict) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the program ended: {self.process.stderr.read()[-2000:]!r}") from None


Check = Callable[[Packages, Path], None]
