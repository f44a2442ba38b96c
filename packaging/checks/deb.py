"""The Debian package: in an empty folder, and in a Debian of its own (`--chroot`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .base import Packages, Skip, empty_home, exercise, needs, run


def check_folder(packages: Packages, folder: Path) -> None:
    """Installs, removes and purges with `dpkg --root`, which needs no other package in the folder."""
    dpkg = needs("dpkg", "it is on Debian and Ubuntu", ci_has_it=True)
    if os.geteuid() != 0:
        raise Skip("dpkg --root needs root")
    package = packages.find(f"marquetry_{packages.version}-1_*.deb")
    root = folder / "root"
    for name in ("info", "updates"):
        (root / "var/lib/dpkg" / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    command = [dpkg, f"--root={root}", "--force-script-chrootless", "--force-depends"]
    environment = empty_home(folder)
    run([*command, "--install", package], env=environment)
    exercise([root / "usr/bin/marquetry"], packages, environment)
    settings = root / "etc/marquetry/marquetry.toml"
    run([root / "usr/bin/marquetry", "check", "--config", settings], env=environment)
    unit = (root / "usr/lib/systemd/system/marquetry.service").read_text()
    assert "ExecStart=/usr/bin/marquetry serve" in unit and "/usr/local" not in unit, unit

    # Files of the administrator and of the service, and a changed conffile.
    (root / "etc/marquetry/environment").write_text("TOKEN=secret\n")
    data = root / "var/lib/private/marquetry"
    data.mkdir(parents=True)
    (data / "knowledge.db").touch()
    settings.write_text(settings.read_text() + "# mine\n")
    run([*command, "--install", package], env=environment)
    assert settings.read_text().endswith("# mine\n"), "an upgrade replaced a changed conffile"
    run([*command, "--remove", "marquetry"], env=environment)
    assert settings.exists() and data.exists() and not (root / "usr/bin/marquetry").exists()
    run([*command, "--purge", "marquetry"], env=environment)
    left = [path for path in (root / "etc", root / "usr", data) if path.exists() and any(path.rglob("*"))]
    assert not left, f"left after the purge: {left}"


def check_chroot(packages: Packages, folder: Path) -> None:
    """Installs with apt in the Debian that MARQUETRY_CHROOT names, with dependencies and all."""
    root = chroot_folder()
    package = packages.find(f"marquetry_{packages.version}-1_*.deb")
    shutil.copyfile(package, root / "tmp/marquetry.deb")
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    variables = [f"PATH={path['PATH']}", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"]
    inside = ["chroot", root, "/usr/bin/env", "-i", *variables]
    try:
        run([*inside, "sh", "-c", "apt-get update -qq && apt-get install -y -qq /tmp/marquetry.deb"])
        exercise([*inside, "marquetry"], packages, path, settings="/etc/marquetry/marquetry.toml", cwd="/")
    finally:
        (root / "tmp/marquetry.deb").unlink()
        run([*inside, "dpkg", "--purge", "marquetry"])
    assert not (root / "etc/marquetry").exists()


def chroot_folder() -> Path:
    name = os.environ.get("MARQUETRY_CHROOT")
    if not name:
        raise Skip("MARQUETRY_CHROOT names no Debian: debootstrap --variant=minbase bookworm FOLDER, as root")
    return Path(name)
