"""Reads from the header of a program which machines it runs on: ELF, Mach-O or PE, 64 bit."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path


# Of a table in a header; programs have tens. A damaged count must not take hours.
MAX_ENTRIES = 100_000


class NotAProgram(Exception):
    """The file is not a program that can be packed."""


@dataclass(frozen=True)
class Target:
    """The machines that a program runs on."""

    os: str  # linux, darwin or windows
    cpu: str  # x64 or arm64
    libc: str = ""  # glibc or musl on Linux; "static" is musl, too
    needs: tuple[int, int] = (0, 0)  # lowest version of glibc or macOS
    libraries: tuple[str, ...] = ()

    @property
    def npm(self) -> str:
        return f"{'win32' if self.os == 'windows' else self.os}-{self.cpu}{'-musl' if self.libc == 'musl' else ''}"

    @property
    def triple(self) -> str:
        cpu = {"x64": "x86_64", "arm64": "aarch64"}[self.cpu]
        rest = {"darwin": "apple-darwin", "windows": "pc-windows-msvc"}
        linux = f"unknown-linux-{'musl' if self.libc == 'musl' else 'gnu'}"
        return f"{cpu}-{rest.get(self.os, linux)}"

    @property
    def program(self) -> str:
        return "marquetry.exe" if self.os == "windows" else "marquetry"


def read_target(path: Path) -> Target:
    """Returns the target of the program at `path`. Raises NotAProgram if it has none."""
    return parse_target(path.read_bytes(), str(path))


def parse_target(data: bytes, name: str) -> Target:
    """Returns the target of a program. `name` is for the message of NotAProgram."""
    try:
        if data[:4] == b"\x7fELF":
            return _elf(data)
        if data[:4] == b"\xcf\xfa\xed\xfe":
            return _mach_o(data)
        if data[:2] == b"MZ":
            return _pe(data)
    except NotAProgram as error:
        raise NotAProgram(f"{name}: {error}") from error
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotAProgram(f"{name}: the header of the program is damaged: {error}") from error
    raise NotAProgram(f"{name} is not a program of Linux, macOS or Windows; name a built `marquetry`")


def has_symbols(path: Path) -> bool:
    """Returns whether a program of Linux has symbols that `strip` would remove."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        return False
    try:
        offset, size, count = _at("<Q", data, 0x28), _at("<H", data, 0x3A), _at("<H", data, 0x3C)
        # Type 2 is SHT_SYMTAB.
        return any(_at("<I", data, offset + index * size + 4) == 2 for index in range(count))
    except struct.error:
        # A table that is cut off; the program starts without it.
        return False


def _at(form: str, data: bytes, offset: int) -> int:
    return struct.unpack_from(form, data, offset)[0]


def _cpu(number: int, names: dict[int, str]) -> str:
    if number not in names:
        raise NotAProgram(f"no package exists for processor {number:#x}; packages are for x86-64 and ARM64")
    return names[number]


def _elf(data: bytes) -> Target:
    if data[4:6] != b"\x02\x01":
        raise NotAProgram("the program is not for a 64-bit little-endian processor")
    cpu = _cpu(_at("<H", data, 18), {62: "x64", 183: "arm64"})
    table, size, count = _at("<Q", data, 32), _at("<H", data, 54), _at("<H", data, 56)
    loads, dynamic, interpreter = [], None, b""
    for index in range(count):
        kind, _, offset, address, _, length, *_ = struct.unpack_from("<IIQQQQ", data, table + index * size)
        if kind == 1:
            loads.append((address, offset, length))
        elif kind == 2:
            dynamic = (offset, length)
        elif kind == 3:
            interpreter = data[offset : offset + length].rstrip(b"\0")
    if not interpreter:
        # A static program runs on every Linux, as those for musl do.
        return Target("linux", cpu, "musl")
    libc = "musl" if b"ld-musl" in interpreter else "glibc"
    if dynamic is None:
        raise NotAProgram("the program has an interpreter, but no dynamic section")
    entries = [struct.unpack_from("<QQ", data, dynamic[0] + at) for at in range(0, dynamic[1], 16)]
    tags = {}
    for tag, value in entries:
        tags.setdefault(tag, value)
    texts = _position(tags[5], loads) if 5 in tags else 0  # DT_STRTAB
    libraries = [_text(data, texts + value) for tag, value in entries if tag == 1]  # DT_NEEDED
    needs = _glibc(data, tags, texts, loads)
    return Target("linux", cpu, libc, needs, tuple(sorted(libraries)))


def _glibc(data: bytes, tags: dict[int, int], texts: int, loads: list) -> tuple[int, int]:
    """Returns the newest version of glibc that a symbol of the program needs."""
    highest = (0, 0)
    left = MAX_ENTRIES
    # DT_VERNEED and DT_VERNEEDNUM.
    entry = _position(tags[0x6FFFFFFE], loads) if 0x6FFFFFFE in tags else 0
    for _ in range(tags.get(0x6FFFFFFF, 0)):
        _, count, _, first, following = struct.unpack_from("<HHIII", data, entry)
        version = entry + first
        left -= count + 1
        if left < 0:
            raise ValueError("its table of versions is too long")
        for _ in range(count):
            _, flags, _, name, after = struct.unpack_from("<IHHII", data, version)
            match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", _text(data, texts + name))
            # Flag 2 is VER_FLG_WEAK: the program starts without this version.
            if match and not flags & 2:
                highest = max(highest, (int(match[1]), int(match[2])))
            version += after
        entry += following
    return highest


def _position(address: int, loads: list) -> int:
    for start, offset, length in loads:
        if start <= address < start + length:
            return address - start + offset
    raise NotAProgram(f"no segment of the program has the address {address:#x}")


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("ascii", "replace")


def _mach_o(data: bytes) -> Target:
    cpu = _cpu(_at("<I", data, 4), {0x01000007: "x64", 0x0100000C: "arm64"})
    needs = (11, 0)
    offset = 32
    for _ in range(min(_at("<I", data, 16), MAX_ENTRIES)):
        kind, size = struct.unpack_from("<II", data, offset)
        # LC_BUILD_VERSION, and LC_VERSION_MIN_MACOSX of older linkers.
        if kind in (0x32, 0x24):
            version = _at("<I", data, offset + (12 if kind == 0x32 else 8))
            needs = (version >> 16, version >> 8 & 0xFF)
        offset += size
    return Target("darwin", cpu, "", needs)


def _pe(data: bytes) -> Target:
    header = _at("<I", data, 0x3C)
    if data[header : header + 4] != b"PE\0\0":
        raise NotAProgram("the program has no PE header")
    return Target("windows", _cpu(_at("<H", data, header + 4), {0x8664: "x64", 0xAA64: "arm64"}))
