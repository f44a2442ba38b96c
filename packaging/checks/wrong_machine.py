"""Each installer refuses packages for another processor, before it starts anything."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

from .base import RELEASE, Packages, Skip, empty_home, needs, refuse, run
from .wheel import find_pip

ARM64, X64 = 183, 62


def pack(packages: Packages, folder: Path, formats: list[str]) -> Path:
    """Packs a small program whose header names the other processor."""
    if packages.target.os != "linux":
        raise Skip("the header of a program of Linux is changed")
    program = bytearray(Path("/bin/true").resolve().read_bytes())
    struct.pack_into("<H", program, 18, ARM64 if packages.target.cpu == "x64" else X64)
    binary = folder / "other"
    binary.write_bytes(program)
    binary.chmod(0o755)
    out = folder / "dist"
    run([RELEASE, "--binary", binary, "--printer", packages.binary, "--out", out, "--fast", *formats])
    return out


def check_release(packages: Packages, folder: Path) -> None:
    """packaging/release says what to do with a program that does not start here."""
    pack(packages, folder, ["wheel"])
    refuse([RELEASE, "--binary", folder / "other", "--out", folder / "x"], "name one for this machine in --printer")
    refuse([RELEASE, "--binary", "/bin/sh", "--out", folder / "x", "--printer", "/bin/true"], "not a version of marq")


def check_npm(packages: Packages, folder: Path) -> None:
    npm = needs("npm", "install Node.js 20, with npm", ci_has_it=True)
    out = pack(packages, folder, ["npm"])
    environment = empty_home(folder)
    other = "arm64" if packages.target.cpu == "x64" else "x64"
    (folder / "package.json").write_text("{}")
    options = ["--no-audit", "--no-fund"]
    platform = out / f"marquetry-linux-{other}-{packages.version}.tgz"
    refuse([npm, "install", *options, platform], "EBADPLATFORM", env=environment, cwd=folder)
    # The launcher with a program for the other processor, which it does not start.
    launcher = out / f"marquetry-{packages.version}.tgz"
    run([npm, "install", "--force", *options, platform, launcher], env=environment, cwd=folder)
    program = folder / "node_modules/.bin/marquetry"
    refuse([program], f"no program is installed for linux on {packages.target.cpu}", env=environment)


def check_pip(packages: Packages, folder: Path) -> None:
    [wheel] = pack(packages, folder, ["wheel"]).glob("*.whl")
    options = ["--no-index", "--target", folder / "installed"]
    refuse([*find_pip(), "install", *options, wheel], "not a supported wheel on this platform")
    assert not (folder / "installed").exists()


def check_dpkg(packages: Packages, folder: Path) -> None:
    dpkg = needs("dpkg", "it is on Debian and Ubuntu", ci_has_it=True)
    needs("dpkg-deb", "it is on Debian and Ubuntu", ci_has_it=True)
    if os.geteuid() != 0:
        raise Skip("dpkg --root needs root")
    [package] = pack(packages, folder, ["deb"]).glob("*.deb")
    root = folder / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    (root / "var/lib/dpkg/status").touch()
    refuse([dpkg, f"--root={root}", "--force-depends", "--install", package], "does not match system")
    shutil.rmtree(root)
