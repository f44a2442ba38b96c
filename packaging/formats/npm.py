"""npm packages: a launcher, and one package for each platform with the program, as esbuild has them.

npm reads `os`, `cpu` and `libc` of the optional dependencies and installs only the one that fits. `marquetry-with-…`
has the launcher and one program in one file, for `npx ./FILE` without a registry.
"""

from __future__ import annotations

import json
from pathlib import Path

from .base import PACKAGING, REPOSITORY, ROOT, SUMMARY, Build, Member, tar_gz, write
from .program import Target

# The platforms of .github/workflows/release.yml.
PLATFORMS = [
    Target("linux", "x64", "glibc"),
    Target("linux", "arm64", "glibc"),
    Target("linux", "x64", "musl"),
    Target("darwin", "x64"),
    Target("darwin", "arm64"),
    Target("windows", "x64"),
]


def make(build: Build) -> list[Path]:
    platform = _members(_platform(build.target, build.version))
    platform.append(Member(f"bin/{build.target.program}", build.program, 0o755))
    # A list here and the package of the platform are published together: equal versions.
    names = {f"@marquetry/{target.npm}": build.version for target in PLATFORMS}
    launcher = _launcher(_manifest(build.version) | {"optionalDependencies": names})
    name = f"@marquetry/{build.target.npm}"
    # Without optional dependencies: npm would look all of them up.
    bundle = {"dependencies": {name: build.version}, "bundleDependencies": [name]}
    both = _launcher(_manifest(build.version) | bundle)
    both += [Member(f"node_modules/{name}/{member.name}", member.data, member.mode) for member in platform]
    files = {
        f"marquetry-{build.target.npm}-{build.version}.tgz": platform,
        f"marquetry-{build.version}.tgz": launcher,
        f"marquetry-with-{build.target.npm}-{build.version}.tgz": both,
    }
    return [write(build.out / file, _pack(members, build)) for file, members in files.items()]


def _pack(members: list[Member], build: Build) -> bytes:
    # npm removes the first folder of each name, whatever it is called.
    members = [Member(f"package/{member.name}", member.data, member.mode) for member in members]
    return tar_gz(members, build.time, build.level)


def _launcher(manifest: dict) -> list[Member]:
    return [*_members(manifest), Member("launcher.cjs", (PACKAGING / "npm/launcher.cjs").read_bytes(), 0o755)]


def _members(manifest: dict) -> list[Member]:
    text = json.dumps(manifest, indent=2) + "\n"
    readme = (PACKAGING / "npm/README.md").read_bytes()
    licence = (ROOT / "LICENSE").read_bytes()
    return [Member("package.json", text.encode()), Member("README.md", readme), Member("LICENSE", licence)]


def _common(name: str, version: str) -> dict:
    return {
        "name": name,
        "version": version,
        "description": SUMMARY,
        "license": "MIT",
        "repository": {"type": "git", "url": f"git+{REPOSITORY}.git"},
    }


def _manifest(version: str) -> dict:
    extra = {
        "keywords": ["mcp", "model-context-protocol", "gateway", "rag"],
        "bin": {"marquetry": "launcher.cjs"},
        "engines": {"node": ">=18"},
    }
    return _common("marquetry", version) | extra


def _platform(target: Target, version: str) -> dict:
    system = "win32" if target.os == "windows" else target.os
    manifest = _common(f"@marquetry/{target.npm}", version)
    manifest |= {"preferUnplugged": True, "os": [system], "cpu": [target.cpu]}
    # A program for musl is static, and runs beside glibc, too.
    if target.libc == "glibc":
        manifest["libc"] = ["glibc"]
    return manifest
