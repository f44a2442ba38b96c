"""install.sh: finds the archive for the machine, downloads it, checks its hash, and installs it.

The hashes of all archives in the output folder are written into the script. A script that fetched them from beside the
archives would accept whatever was put there.
"""

from __future__ import annotations

from pathlib import Path

from . import archive
from .base import PACKAGING, REPOSITORY, Build, NotMade, write


def make(build: Build) -> list[Path]:
    # The script is for shells of Unix.
    made = [it for it in archive.archives(build) if "windows" not in it.triple]
    if not made:
        raise NotMade(f"{build.out} has no archive for Linux or macOS: run packaging/release archive first")
    lines = []
    for it in made:
        target = it.target()
        major, minor = target.needs
        # "-" for a program that needs no glibc.
        lines.append(f"{it.triple} {it.hash} {f'{major}.{minor}' if target.libc == 'glibc' else '-'}")
    values = {
        "@VERSION@": build.version,
        "@BASE@": f"{REPOSITORY}/releases/download/v{build.version}",
        "@ARCHIVES@": "\n".join(lines),
    }
    text = (PACKAGING / "install.sh").read_text()
    for mark, value in values.items():
        text = text.replace(mark, value)
    return [write(build.out / "install.sh", text.encode(), 0o755)]
