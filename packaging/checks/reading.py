"""The header of a program is read right, and a damaged one is an error."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from formats.npm import PLATFORMS
from formats.program import NotAProgram, Target, parse_target
from formats.wheel import platform_tag

from .base import Packages


def check(packages: Packages, folder: Path) -> None:
    data = packages.binary.read_bytes()
    assert parse_target(data, "it").npm in {target.npm for target in PLATFORMS}
    if data[:4] == b"\x7fELF":
        other = bytearray(data)
        struct.pack_into("<H", other, 18, 243)
        assert "processor 0xf3" in problem(bytes(other))
    check_macos_and_windows()
    assert "is not a program" in problem(b"#!/bin/sh\n")
    assert "is not a program" in problem(b"")
    check_damage(data)


def problem(data: bytes) -> str:
    try:
        return f"read as {parse_target(data, 'it')}"
    except NotAProgram as error:
        return str(error)


def check_macos_and_windows() -> None:
    version = struct.pack("<IIII", 0x32, 24, 1, 11 << 16)
    mac = b"\xcf\xfa\xed\xfe" + struct.pack("<IIIIIII", 0x0100000C, 0, 2, 1, len(version), 0, 0) + version + bytes(8)
    target = parse_target(mac, "it")
    assert (target.npm, target.triple) == ("darwin-arm64", "aarch64-apple-darwin"), target
    assert platform_tag(target) == "macosx_11_0_arm64"
    windows = b"MZ" + bytes(0x3A) + struct.pack("<I", 0x40) + b"PE\0\0" + struct.pack("<H", 0x8664)
    target = parse_target(windows, "it")
    assert (target.npm, target.program) == ("win32-x64", "marquetry.exe"), target
    assert platform_tag(target) == "win_amd64"
    assert platform_tag(Target("linux", "x64", "musl")) == "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    assert platform_tag(Target("linux", "arm64", "glibc", (2, 4))) == "manylinux_2_17_aarch64"


def check_damage(data: bytes) -> None:
    """A changed or shortened header is read, or is an error that says so."""
    seed = random.randrange(1 << 32)
    numbers = random.Random(seed)
    # The dynamic section of a program is at its end, so that a small one has all of it.
    small = Path("/bin/true")
    for base in (data[:4096], small.read_bytes() if small.exists() else data[:65536]):
        for _ in range(300):
            damaged = bytearray(base[: numbers.randrange(4, len(base))])
            for _ in range(numbers.randrange(8)):
                # Most of them within the header.
                damaged[numbers.randrange(4, min(len(damaged), 1024) + 1) - 1] = numbers.randrange(256)
            try:
                parse_target(bytes(damaged), "it")
            except NotAProgram:
                pass
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
