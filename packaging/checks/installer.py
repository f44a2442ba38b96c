"""install.sh, from a server on this machine."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

from .base import Packages, empty_home, exercise, refuse, run


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_) -> None:
        pass


def check(packages: Packages, folder: Path) -> None:
    script = packages.find("install.sh")
    archive = packages.find(f"marquetry-{packages.version}-{packages.target.triple}.tar.gz")
    files = folder / "files"
    files.mkdir()
    (files / archive.name).symlink_to(archive)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=files))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        check_with(packages, folder, script, files / archive.name, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def check_with(packages: Packages, folder: Path, script: Path, served: Path, base: str) -> None:
    environment = empty_home(folder, MARQUETRY_DOWNLOAD_BASE=base, TMPDIR=str(folder))
    program = folder / "home/.local/bin/marquetry"
    refused = functools.partial(refuse_install, script, program)

    # Machines without a package.
    refused(environment, uname("riscv64", folder), "no package exists for the processor riscv64")
    refused(environment, uname("x86_64", folder, system="FreeBSD"), "no package exists for FreeBSD")
    other = "aarch64" if packages.target.cpu == "x64" else "x86_64"
    refused(environment, uname(other, folder), f"no package for {other}-unknown-linux-gnu")
    refused(environment, fake("getconf", 'test "$1" = LONG_BIT && echo 32', folder), "a 32-bit system")
    # A machine whose archive needs glibc, if the script has no static one for it.
    if packages.target.libc == "glibc" and "-unknown-linux-musl " not in script.read_text():
        refused(environment, fake("getconf", 'test "$1" = LONG_BIT && echo 64', folder), "no glibc (Alpine has musl)")
        old = 'case $1 in LONG_BIT) echo 64 ;; *) echo glibc 2.16 ;; esac'
        refused(environment, fake("getconf", old, folder), "glibc 2.16, and the package needs")

    # An archive that is not the one of the script: one byte is another, or it is missing.
    right = served.resolve()
    served.unlink()
    refused(environment, {}, "failed to download")
    shutil.copyfile(right, served)
    with served.open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    refused(environment, {}, "has the SHA-256", "nothing is installed")
    # A part of the script does nothing.
    part = folder / "part.sh"
    part.write_text(script.read_text().removesuffix("main\n"))
    run(["sh", part], env=environment)
    assert not program.exists()

    served.unlink()
    served.symlink_to(right)
    said = run(["sh", script], env=environment)
    assert f"installed {program}" in said and "is not in PATH" in said, said
    exercise([program], packages, environment)
    # Once more, over the program that is there.
    run(["sh", script], env=environment)
    left = {path.name for path in program.parent.iterdir()} | {path.name for path in folder.glob("tmp.*")}
    assert left == {"marquetry"}, left


def refuse_install(script: Path, program: Path, environment: dict, changes: dict, *parts: str) -> None:
    refuse(["sh", script], *parts, env=environment | changes)
    assert not program.exists(), f"installed in spite of {parts}"


def uname(machine: str, folder: Path, system: str = "Linux") -> dict[str, str]:
    return fake("uname", f'case $1 in -m) echo {machine} ;; *) echo {system} ;; esac', folder)


def fake(name: str, script: str, folder: Path) -> dict[str, str]:
    """Returns a PATH on which `name` is a script."""
    programs = folder / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir()
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}
