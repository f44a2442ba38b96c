"""A Debian package with the systemd unit, settings in /etc/marquetry, completions and man pages.

The service does not start at the installation: the program is also a command line, and a server that nobody asked for
would listen on a port.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
from email.utils import formatdate
from pathlib import Path

from .base import PACKAGING, REPOSITORY, ROOT, SUMMARY, Build, Member, NotMade

ARCHITECTURES = {"x64": "amd64", "arm64": "arm64"}
PACKAGES = {"libc.so.6": "libc6", "libm.so.6": "libc6", "libgcc_s.so.1": "libgcc-s1"}
CONFFILES = ["/etc/marquetry/marquetry.toml"]
MAINTAINER = "Marquetry developers <marquetry@users.noreply.github.com>"


def make(build: Build) -> list[Path]:
    if build.target.os != "linux":
        raise NotMade("Debian packages are for Linux")
    if not shutil.which("dpkg-deb"):
        raise NotMade("dpkg-deb is missing: it is on Debian and Ubuntu; elsewhere install the package `dpkg`")
    members = _members(build)
    tree = build.work / "deb"
    for member in members + _control(build, members):
        path = tree / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.data)
        path.chmod(member.mode)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (build.time, build.time))
    file = build.out / f"marquetry_{build.version}-1_{ARCHITECTURES[build.target.cpu]}.deb"
    # Debian 11 cannot read zstd, the default of newer systems. xz takes seconds even at its lowest level.
    format = "gzip" if build.level == 1 else "xz"
    options = ["--root-owner-group", "--uniform-compression", f"-Z{format}", f"-z{build.level}"]
    command = ["dpkg-deb", *options, "--build", tree, file]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(build.time)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return [file]


def _members(build: Build) -> list[Member]:
    unit = (PACKAGING / "marquetry.service").read_text()
    # The first line names the folder for units of administrators, and /usr/local is theirs.
    unit = unit.replace("# /etc/systemd/system/marquetry.service\n", "# The unit of the Debian package.\n")
    unit = unit.replace("/usr/local/bin/marquetry", "/usr/bin/marquetry")
    share = "usr/share"
    doc = f"{share}/doc/marquetry"
    licence = (ROOT / "LICENSE").read_text()
    completions = build.completions
    members = [
        Member("usr/bin/marquetry", build.program, 0o755),
        Member("usr/lib/systemd/system/marquetry.service", unit.encode()),
        Member("etc/marquetry/marquetry.toml", (PACKAGING / "deb/marquetry.toml").read_bytes()),
        Member(f"{share}/bash-completion/completions/marquetry", completions["bash"]),
        Member(f"{share}/zsh/vendor-completions/_marquetry", completions["zsh"]),
        Member(f"{share}/fish/vendor_completions.d/marquetry.fish", completions["fish"]),
        Member(f"{doc}/copyright", _copyright(licence).encode()),
        Member(f"{doc}/changelog.gz", _gzip((ROOT / "CHANGELOG.md").read_bytes())),
        Member(f"{doc}/changelog.Debian.gz", _gzip(_changelog(build).encode())),
        Member(f"{doc}/README.md", (ROOT / "README.md").read_bytes()),
        Member(f"{doc}/examples/marquetry.toml", (ROOT / "marquetry.example.toml").read_bytes()),
        Member(f"{doc}/examples/logrotate", (PACKAGING / "logrotate/marquetry").read_bytes()),
        Member(f"{doc}/examples/alerts.yml", (PACKAGING / "prometheus/alerts.yml").read_bytes()),
        Member(f"{doc}/examples/grafana.json", (PACKAGING / "grafana/marquetry.json").read_bytes()),
    ]
    pages = [Member(f"{share}/man/man1/{name}.gz", _gzip(page)) for name, page in build.man_pages.items()]
    return members + pages


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _changelog(build: Build) -> str:
    """Returns the changes of the packaging: those of the program are in changelog.gz."""
    date = formatdate(build.time)
    entry = f"  * Package version {build.version}, whose changes are in changelog.gz."
    return f"marquetry ({build.version}-1) stable; urgency=medium\n\n{entry}\n\n -- {MAINTAINER}  {date}\n"


def _copyright(licence: str) -> str:
    lines = [f" {line}" if line.strip() else " ." for line in licence.strip().splitlines()]
    holder = re.search(r"Copyright \(c\) (.+)", licence)
    return "\n".join(
        [
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
            "Upstream-Name: marquetry",
            f"Source: {REPOSITORY}",
            "",
            "Files: *",
            f"Copyright: {holder[1] if holder else 'the authors of Marquetry'}",
            "License: MIT",
            *lines,
            "",
        ]
    )


def depends(build: Build) -> str:
    """Returns the packages that have the libraries of the program, libc6 with the lowest version that will do."""
    names = set()
    for library in build.target.libraries:
        if library.startswith("ld-linux"):
            continue
        if library not in PACKAGES:
            raise NotMade(f"no Debian package is known for the library {library}; add it to packaging/formats/deb.py")
        names.add(PACKAGES[library])
    major, minor = build.target.needs
    return ", ".join(f"libc6 (>= {major}.{minor})" if name == "libc6" else name for name in sorted(names))


def _control(build: Build, members: list[Member]) -> list[Member]:
    size = sum(len(member.data) for member in members)
    fields = [
        "Package: marquetry",
        f"Version: {build.version}-1",
        f"Architecture: {ARCHITECTURES[build.target.cpu]}",
        f"Maintainer: {MAINTAINER}",
        f"Installed-Size: {size // 1024 + 1}",
        *([f"Depends: {needed}"] if (needed := depends(build)) else []),
        "Suggests: nodejs, npm, python3",
        "Section: net",
        "Priority: optional",
        f"Homepage: {REPOSITORY}",
        f"Description: {SUMMARY.split(':')[0]}",
        " It keeps large answers out of the context window of agents, keeps working when",
        " a server fails, and finds and cites documents.",
        "",
    ]
    sums = [f"{hashlib.md5(member.data).hexdigest()}  {member.name}" for member in members]
    control = [
        Member("DEBIAN/control", "\n".join(fields).encode()),
        Member("DEBIAN/conffiles", "\n".join([*CONFFILES, ""]).encode()),
        Member("DEBIAN/md5sums", "\n".join([*sums, ""]).encode()),
    ]
    scripts = ("postinst", "prerm", "postrm")
    return control + [Member(f"DEBIAN/{name}", (PACKAGING / "deb" / name).read_bytes(), 0o755) for name in scripts]
