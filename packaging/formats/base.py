"""The parts that all formats share: the program to pack, and archives that are the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .program import Target

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
REPOSITORY = "https://github.com/marquetry/marquetry"
SUMMARY = "One MCP server in front of many: tools, artifacts, documents and diagrams for agents"


class NotMade(Exception):
    """This machine cannot make the format. The text says why, and how it could."""


@dataclass(frozen=True)
class Build:
    """One built program, and how to pack it."""

    binary: Path
    printer: Path  # prints completions and man pages; another program if `binary` is for another machine
    version: str
    target: Target
    out: Path
    work: Path  # an empty folder for files on the way
    time: int  # SOURCE_DATE_EPOCH
    level: int  # of compression, 1 to 9

    @property
    def name(self) -> str:
        return f"marquetry-{self.version}-{self.target.triple}"

    @cached_property
    def program(self) -> bytes:
        return self.binary.read_bytes()

    def run(self, *arguments: str) -> bytes:
        """Returns what the printer writes to standard output."""
        command = [str(self.printer), *arguments]
        # Completions and man pages are the same on each machine, whatever is configured there. Programs of Windows do
        # not start without its variables.
        environment = None if os.name == "nt" else {"PATH": "/usr/bin:/bin"}
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout

    @cached_property
    def completions(self) -> dict[str, bytes]:
        """Completions by shell."""
        return {shell: self.run("completions", shell) for shell in ("bash", "fish", "zsh", "powershell")}

    @cached_property
    def man_pages(self) -> dict[str, bytes]:
        """Man pages by file name."""
        folder = self.work / "man"
        if not folder.exists():
            self.run("man", str(folder))
        return {page.name: page.read_bytes() for page in sorted(folder.iterdir())}


@dataclass(frozen=True)
class Member:
    """A file of an archive."""

    name: str
    data: bytes
    mode: int = 0o644


def tar(members: list[Member], time: int) -> bytes:
    """Returns a tar archive whose bytes depend only on its members and `time`."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member in sorted(members, key=lambda it: it.name):
            info = tarfile.TarInfo(member.name)
            info.size = len(member.data)
            info.mode = member.mode
            info.mtime = time
            archive.addfile(info, io.BytesIO(member.data))
    return file.getvalue()


def tar_gz(members: list[Member], time: int, level: int) -> bytes:
    """Returns a gzip of `tar`. The gzip header has no name, and its time is 0, as with `gzip -n`."""
    return gzip.compress(tar(members, time), level, mtime=0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(path: Path, data: bytes, mode: int = 0o644) -> Path:
    """Writes a file in one step, so that no half a package has its name."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.chmod(mode)
    part.replace(path)
    return path
