"""The images: loaded from their archives and started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .base import Packages, Skip, exercise, needs, run


def check_plain(packages: Packages, folder: Path) -> None:
    with_image(packages, folder, "image", ["marquetry"])


def check_node_uv(packages: Packages, folder: Path) -> None:
    with_image(packages, folder, "image-node-uv", ["marquetry", "npx", "uvx", "python3"])


def with_image(packages: Packages, folder: Path, name: str, programs: list[str]) -> None:
    archive = packages.find(f"marquetry-{packages.version}-{name}-linux-*.tar.gz")
    if os.geteuid() != 0:
        raise Skip("buildah runs a container of another user as root")
    buildah = [needs("buildah", "apt-get install buildah"), "--root", folder / "store", "--runroot", folder / "run"]
    # buildah reads an archive with gzip only from a plain file of its own.
    run(["sh", "-c", 'gzip -dc "$0" > "$1"', archive, folder / "image.tar"])
    container = run([*buildah, "from", "--quiet", f"docker-archive:{folder / 'image.tar'}"]).split()[-1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    if not (shutil.which("crun") or shutil.which("runc")):
        environment["BUILDAH_ISOLATION"] = "chroot"
    inside = [*buildah, "run", container, "--"]
    try:
        for program in programs:
            run([*inside, program, "--version"], env=environment)
        assert "uid=10001" in run([*inside, "id"], env=environment)
        exercise([*inside, "marquetry"], packages, environment)
    finally:
        run([*buildah, "rm", container])
