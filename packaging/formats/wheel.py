"""A wheel of Python: `pip`, `pipx` and `uv` put the program into the folder of scripts.

Written by hand, because maturin compiles the program itself, while this packs one that is built: the same bytes as in
all other formats. The layout is that of `maturin build --bindings bin`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from datetime import datetime, timezone
from pathlib import Path

from .base import PACKAGING, REPOSITORY, ROOT, SUMMARY, Build, Member, NotMade, write
from .program import Target

# The name `marquetry` belongs to another project on PyPI.
NAME = "marquetry-mcp"

# The libraries that PEP 600 allows and that programs of Rust need.
ALLOWED = {
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def platform_tag(target: Target) -> str:
    """Returns the platform of the wheel's name: the oldest system on which the program starts."""
    cpu = {"x64": "x86_64", "arm64": "aarch64"}[target.cpu]
    if target.os == "windows":
        return {"x64": "win_amd64", "arm64": "win_arm64"}[target.cpu]
    major, minor = target.needs
    if target.os == "darwin":
        # From macOS 11, installers look for the first number only.
        return f"macosx_{major}_{0 if major >= 11 else minor}_{'arm64' if target.cpu == 'arm64' else 'x86_64'}"
    if target.libc == "musl":
        # A static program runs beside each C library.
        return f"manylinux_2_17_{cpu}.musllinux_1_1_{cpu}"
    if others := set(target.libraries) - ALLOWED:
        raise NotMade(f"the program needs libraries that manylinux does not have: {', '.join(sorted(others))}")
    # 2.17 is the first that ARM64 has, and the oldest that Rust supports.
    major, minor = max(target.needs, (2, 17))
    return f"manylinux_{major}_{minor}_{cpu}"


def make(build: Build) -> list[Path]:
    platform = platform_tag(build.target)
    distribution = f"{NAME.replace('-', '_')}-{build.version}"
    info = f"{distribution}.dist-info"
    readme = (PACKAGING / "wheel/README.md").read_text()
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {build.version}",
        f"Summary: {SUMMARY}",
        "License: MIT",
        f"Project-URL: Source, {REPOSITORY}",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    tags = [f"Tag: py3-none-{tag}" for tag in platform.split(".")]
    wheel = ["Wheel-Version: 1.0", "Generator: marquetry packaging/release", "Root-Is-Purelib: false", *tags]
    members = [
        Member(f"{distribution}.data/scripts/{build.target.program}", build.program, 0o755),
        Member(f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes()),
        Member(f"{info}/METADATA", "\n".join([*metadata, "", readme]).encode()),
        Member(f"{info}/WHEEL", "\n".join([*wheel, ""]).encode()),
    ]
    record = [f"{member.name},sha256={_hash(member.data)},{len(member.data)}" for member in members]
    members.append(Member(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode()))
    return [write(build.out / f"{distribution}-py3-none-{platform}.whl", _zip(members, build))]


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zip(members: list[Member], build: Build) -> bytes:
    file = io.BytesIO()
    # The zip format begins in 1980.
    time = datetime.fromtimestamp(max(build.time, 315532800), timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            header = zipfile.ZipInfo(member.name, time)
            # A plain file: pip sets the bits of a program in `scripts`, other installers read them here.
            header.create_system = 3  # Unix, whose modes the next line has
            header.external_attr = (0o100000 | member.mode) << 16
            archive.writestr(header, member.data, zipfile.ZIP_DEFLATED, build.level)
    return file.getvalue()
