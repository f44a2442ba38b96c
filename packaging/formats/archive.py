"""An archive: the program, completions, man pages, the licence, example settings, and the systemd unit."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from .base import PACKAGING, ROOT, Build, Member, sha256, tar_gz, write
from .program import Target, parse_target

COMPLETIONS = {"bash": "marquetry.bash", "fish": "marquetry.fish", "zsh": "_marquetry", "powershell": "_marquetry.ps1"}


def make(build: Build) -> list[Path]:
    members = [Member(build.target.program, build.program, 0o755)]
    for name in ("LICENSE", "CHANGELOG.md", "README.md", "marquetry.example.toml"):
        members.append(Member(name, (ROOT / name).read_bytes()))
    if build.target.os == "linux":
        members.append(Member("marquetry.service", (PACKAGING / "marquetry.service").read_bytes()))
    for shell, script in build.completions.items():
        members.append(Member(f"completions/{COMPLETIONS[shell]}", script))
    for name, page in build.man_pages.items():
        members.append(Member(f"man/{name}", page))
    members = [Member(f"{build.name}/{member.name}", member.data, member.mode) for member in members]
    if build.target.os == "windows":
        return [write(build.out / f"{build.name}.zip", _zip(members, build.level))]
    return [write(build.out / f"{build.name}.tar.gz", tar_gz(members, build.time, build.level))]


def _zip(members: list[Member], level: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in sorted(members, key=lambda it: it.name):
            # The default time of ZipInfo is 1980-01-01.
            header = zipfile.ZipInfo(member.name)
            header.create_system = 0  # without modes of Unix
            archive.writestr(header, member.data, zipfile.ZIP_DEFLATED, level)
    return file.getvalue()


@dataclass(frozen=True)
class Made:
    """An archive in the output folder, perhaps from another machine."""

    path: Path
    triple: str
    hash: str

    def target(self) -> Target:
        """Returns the target of the program in a tar.gz archive."""
        with tarfile.open(self.path) as archive:
            name = f"{self.path.name.removesuffix('.tar.gz')}/marquetry"
            return parse_target(archive.extractfile(name).read(), f"{self.path}: {name}")


def archives(build: Build) -> list[Made]:
    """Returns the archives of this version in the output folder."""
    pattern = re.compile(rf"marquetry-{re.escape(build.version)}-((?:x86_64|aarch64)-[\w-]+)\.(tar\.gz|zip)")
    made = []
    for path in sorted(build.out.iterdir()):
        if match := pattern.fullmatch(path.name):
            made.append(Made(path, match[1], sha256(path.read_bytes())))
    return made
