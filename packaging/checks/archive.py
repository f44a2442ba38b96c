"""The archive and SHA256SUMS, and that packages are the same bytes each time."""

from __future__ import annotations

import shutil
from pathlib import Path

from .base import RELEASE, Packages, Skip, empty_home, exercise, needs, run


def check(packages: Packages, folder: Path) -> None:
    archive = packages.find(f"marquetry-{packages.version}-{packages.target.triple}.tar.gz")
    run(["tar", "-xzf", archive, "-C", folder])
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    exercise([unpacked / "marquetry"], packages, empty_home(folder))
    for name in ("LICENSE", "marquetry.example.toml", "completions/marquetry.bash", "man/marquetry.1"):
        assert (unpacked / name).stat().st_size > 0, name
    # The example is one that the program accepts.
    run([unpacked / "marquetry", "check", "--config", unpacked / "marquetry.example.toml"], env=empty_home(folder))


def check_sums(packages: Packages, folder: Path) -> None:
    sums = needs("sha256sum", "apt-get install coreutils", ci_has_it=True)
    packages.find("SHA256SUMS")
    run([sums, "--check", "--strict", "SHA256SUMS"], cwd=packages.folder)


def check_same_bytes(packages: Packages, folder: Path) -> None:
    """A small program instead of ours: what is compared is the packing."""
    if packages.target.os != "linux":
        raise Skip("a small program of Linux is packed")
    formats = ["archive", "npm", "wheel", "homebrew", "installer"]
    if shutil.which("dpkg-deb"):
        formats.append("deb")
    program = Path("/bin/true").resolve()
    for name in ("first", "second"):
        # An image, which the formula and the installer must not take for an archive.
        (folder / name).mkdir()
        (folder / name / f"marquetry-{packages.version}-image-linux-amd64.tar.gz").touch()
        # Another umask, and another time of the files on the way.
        command = f"umask {'022' if name == 'first' else '077'}; exec \"$0\" \"$@\""
        arguments = [RELEASE, "--binary", program, "--printer", packages.binary, "--out", folder / name, *formats]
        run(["sh", "-c", command, *arguments])
    files = {path.name for path in (folder / "first").iterdir()}
    assert len(files) >= 7, files
    assert files == {path.name for path in (folder / "second").iterdir()}
    for name in files:
        assert (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes(), name
