"""The formula: its hashes, and an installation where Homebrew is installed."""

from __future__ import annotations

import re
from pathlib import Path

from formats.base import sha256

from .base import Packages, needs, run


def check_hashes(packages: Packages, folder: Path) -> None:
    formula = packages.find("marquetry.rb").read_text()
    found = re.findall(r'url "[^"]*/([^/"]+)"\n\s*sha256 "(\w+)"', formula)
    assert found, formula
    for name, hash in found:
        assert sha256((packages.folder / name).read_bytes()) == hash, name


def check_ruby(packages: Packages, folder: Path) -> None:
    ruby = needs("ruby", "apt-get install ruby")
    run([ruby, "-c", packages.find("marquetry.rb")])


def check_brew(packages: Packages, folder: Path) -> None:
    brew = needs("brew", "see https://brew.sh")
    formula = packages.find("marquetry.rb")
    local = folder / "marquetry.rb"
    local.write_text(re.sub(r'url "[^"]*/([^/"]+)"', rf'url "file://{packages.folder}/\1"', formula.read_text()))
    run([brew, "install", "--formula", local])
    try:
        run([brew, "test", "marquetry"])
    finally:
        run([brew, "uninstall", "marquetry"])
