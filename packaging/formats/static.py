"""An archive of a program that needs no C library: for Alpine, and for a glibc that is too old."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from . import archive
from .base import ROOT, Build, NotMade
from .program import read_target


def make(build: Build) -> list[Path]:
    if build.target.libc == "musl":
        raise NotMade("the named program is static already: `archive` has it")
    if build.target.os != "linux":
        raise NotMade("static programs are for Linux")
    triple = f"{platform.machine()}-unknown-linux-musl"
    query = ["rustc", "--print", "target-libdir", "--target", triple]
    libraries = subprocess.run(query, capture_output=True, text=True).stdout.strip() if shutil.which("rustc") else ""
    if not libraries or not Path(libraries).exists():
        raise NotMade(f"Rust's standard library for {triple} is missing: rustup target add {triple}")
    if not shutil.which("musl-gcc"):
        raise NotMade("the C compiler for musl is missing: apt-get install musl-tools")
    command = ["cargo", "build", "--profile", "dist", "--locked", "--package", "marquetry", "--target", triple]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise NotMade(f"the program did not build for {triple}; the messages are above")
    binary = ROOT / "target" / triple / "dist/marquetry"
    target = read_target(binary)
    if target.libc != "musl" or target.libraries:
        raise NotMade(f"{binary} is not static: it needs {', '.join(target.libraries)}")
    return archive.make(replace(build, binary=binary, printer=binary, target=target))
