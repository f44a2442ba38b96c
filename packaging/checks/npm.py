"""The npm packages, and the launcher: signals, exit codes, and bytes of the streams."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .base import Packages, Skip, call_over_stdio, empty_home, exercise, needs, refuse, run

INSTALL = "install Node.js 20, with npm"


def check_npx(packages: Packages, folder: Path) -> None:
    npx = needs("npx", INSTALL, ci_has_it=True)
    file = packages.find(f"marquetry-with-{packages.target.npm}-{packages.version}.tgz")
    # A path that begins with a slash is a program for npx, and not a package. Each run takes seconds, because npm reads
    # the whole file; `check_install` runs the other commands.
    shutil.copyfile(file, folder / file.name)
    command = [npx, "-y", f"./{file.name}"]
    environment = empty_home(folder)
    assert run([*command, "--version"], env=environment, cwd=folder) == f"marquetry {packages.version}\n"
    tools, _ = call_over_stdio([*command, "stdio"], environment, cwd=folder)
    assert "encodePlantUML" in tools, tools


def check_install(packages: Packages, folder: Path) -> None:
    npm = needs("npm", INSTALL, ci_has_it=True)
    launcher = packages.find(f"marquetry-{packages.version}.tgz")
    platform = packages.find(f"marquetry-{packages.target.npm}-{packages.version}.tgz")
    environment = empty_home(folder)
    (folder / "package.json").write_text("{}")
    run([npm, "install", "--no-audit", "--no-fund", platform, launcher], env=environment, cwd=folder)
    exercise([folder / "node_modules/.bin/marquetry"], packages, environment)

    # The launcher alone, as with --omit=optional.
    shutil.rmtree(folder / "node_modules/@marquetry")
    program = folder / "node_modules/.bin/marquetry"
    refuse([program], "no program is installed for", "--omit=optional", env=environment)

    # A package of another version is not started.
    other = folder / f"node_modules/@marquetry/{packages.target.npm}"
    other.mkdir(parents=True)
    (other / "package.json").write_text('{"version": "9.9.9"}')
    refuse([program], "has version 9.9.9, but marquetry has version", env=environment)


# Counts SIGINT, and ends half a second after the first one.
PROGRAM = """#!{python}
import signal, sys, time
count = 0
def note(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, note)
if sys.argv[1] == "copy":
    sys.stdout.buffer.write(sys.stdin.buffer.read())
    sys.exit(7)
if sys.argv[1] == "die":
    import os
    os.kill(os.getpid(), signal.SIGKILL)
print("ready", flush=True)
while count == 0:
    time.sleep(0.01)
time.sleep(0.5)
print("count", count, flush=True)
sys.exit(3)
"""


def check_launcher(packages: Packages, folder: Path) -> None:
    """The launcher with a program that tells which signals it got."""
    node = needs("node", INSTALL, ci_has_it=True)
    if os.name == "nt":
        raise Skip("signals are tested on Unix")
    environment = empty_home(folder)
    launcher = packages.find(f"marquetry-{packages.version}.tgz")
    run(["tar", "-xzf", launcher, "-C", folder])
    platform = folder / f"package/node_modules/@marquetry/{packages.target.npm}"
    (platform / "bin").mkdir(parents=True)
    (platform / "package.json").write_text(json.dumps({"version": packages.version}))
    program = platform / "bin/marquetry"
    program.write_text(PROGRAM.replace("{python}", sys.executable))

    script = folder / "package/launcher.cjs"
    refuse([node, script], "failed to start", env=environment)
    program.chmod(0o755)
    # Node.js that cannot replace itself, which is each before 22.15, and what this one does.
    old = folder / "old.cjs"
    old.write_text("delete process.execve;\n")
    for command in ([node, "--require", old, script], [node, script]):
        check_streams([*command, "copy"], environment)
        done = subprocess.run([*command, "die"], env=environment, stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == -signal.SIGKILL, done.returncode
        for number in (signal.SIGINT, signal.SIGTERM):
            check_signal([*command, "wait"], environment, number)
        check_terminal([*command, "wait"], environment)


def check_streams(command: list, environment: dict[str, str]) -> None:
    data = bytes(range(256)) * 4096
    done = subprocess.run(command, env=environment, input=data, stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout == data) == (7, True), (done.returncode, len(done.stdout))


def check_signal(command: list, environment: dict[str, str], number: int) -> None:
    """One signal from another program reaches ours once."""
    # A session of its own has no terminal, as under a client that starts its servers.
    options = {"env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}
    process = subprocess.Popen(command, **options)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (3, b"count 1\n"), (process.returncode, said)


def check_terminal(command: list, environment: dict[str, str]) -> None:
    """Ctrl-C in a terminal reaches the launcher and the program; the launcher does not repeat it."""
    import pty  # Windows has none

    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], [str(part) for part in command], environment)
    said = b""
    end = time.monotonic() + 60
    is_interrupted = False
    while time.monotonic() < end:
        try:
            read = os.read(terminal, 1024)
        except OSError:
            # Linux reports the end of the other side this way; others read nothing.
            break
        if not read:
            break
        said += read
        if b"ready" in said and not is_interrupted:
            is_interrupted = True
            os.write(terminal, b"\x03")
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(status), b"count 1\r\n" in said) == (3, True), (status, said)
