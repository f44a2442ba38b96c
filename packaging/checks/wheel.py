"""The wheel, with uv and with pip."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from .base import Packages, Skip, empty_home, exercise, needs, run


def check_uvx(packages: Packages, folder: Path) -> None:
    uvx = needs("uvx", "pip install uv", ci_has_it=True)
    wheel = packages.find(f"marquetry_mcp-{packages.version}-*.whl")
    # The Python of this test: uv would download one that suits it better.
    environment = empty_home(folder, UV_PYTHON=sys.executable, UV_NO_PROGRESS="1")
    exercise([uvx, "--from", wheel, "marquetry"], packages, environment)


def check_pip(packages: Packages, folder: Path) -> None:
    wheel = packages.find(f"marquetry_mcp-{packages.version}-*.whl")
    environment = empty_home(folder)
    # Without a pip of its own, which takes seconds: the one of this Python installs there.
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], env=environment)
    pip = [*find_pip(), "--python", folder / "venv/bin/python", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-index", wheel], env=environment)
    exercise([folder / "venv/bin/marquetry"], packages, environment)
    run([*pip, "check"], env=environment)
    run([*pip, "uninstall", "--quiet", "--yes", "marquetry-mcp"], env=environment)
    assert not (folder / "venv/bin/marquetry").exists()


def find_pip() -> list[str]:
    if importlib.util.find_spec("pip") is None:
        raise Skip("this Python has no pip (apt-get install python3-pip)", ci_has_it=True)
    return [sys.executable, "-m", "pip"]
