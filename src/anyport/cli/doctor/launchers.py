"""Launchers such as npx, uvx and docker: whether they are installed, and which version they run.

Command lines are only parsed; nothing is run.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anyport.config.model import Config, ServerConfig

SOURCES: Final[Mapping[str, str]] = {
    "npx": "Node.js",
    "npm": "Node.js",
    "node": "Node.js",
    "pnpm": "pnpm",
    "bunx": "Bun",
    "bun": "Bun",
    "deno": "Deno",
    "uvx": "uv",
    "uv": "uv",
    "pipx": "pipx",
    "docker": "Docker",
    "podman": "Podman",
}
"""Common launchers, and what to install for them."""

MOVING_TAGS: Final = frozenset(
    {"latest", "next", "beta", "canary", "main", "master", "edge", "nightly"}
)
"""Tags that move to other versions."""

_OPTIONS_WITH_VALUE: Final[Mapping[str, frozenset[str]]] = {
    "npx": frozenset({"-p", "--package", "-c", "--call", "-w", "--workspace"}),
    "uvx": frozenset(
        {"--from", "--with", "--python", "-p", "--index-url", "--index", "--default-index"}
        | {"--extra-index-url", "-i", "--refresh-package", "--constraints", "-c", "--directory"}
    ),
    "docker": frozenset(
        {"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "-p", "--publish"}
        | {"--network", "--net", "-w", "--workdir", "-u", "--user", "--entrypoint", "--platform"}
        | {"--pull", "-m", "--memory", "--cpus", "--gpus", "-l", "--label", "--add-host", "-h"}
        | {"--hostname", "--device", "--cap-add", "--cap-drop", "--security-opt", "--tmpfs"}
    ),
}
"""Options with a value as the next word."""

_PACKAGE_OPTIONS: Final = {"npx": ("-p", "--package"), "uvx": ("--from",)}
"""Options that name the package if the command has another name."""

_EXACT_VERSION: Final = re.compile(r"v?\d+\.\d+[\w.+!-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A launcher that configured servers need."""

    program: str
    servers: tuple[str, ...]
    is_found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned:
    """A package without a fixed version."""

    launcher: str
    package: str
    pinned: str
    """How to write it with a version."""
    newest: str
    """The command that prints the newest version."""


def find_launchers(config: Config, environ: Mapping[str, str]) -> tuple[Launcher, ...]:
    """The launchers of the configured servers."""
    users: dict[str, list[ServerConfig]] = {}
    for server in config.servers.values():
        if server.command in SOURCES and not server.disabled:
            users.setdefault(server.command or "", []).append(server)
    return tuple(
        Launcher(
            program=program,
            servers=tuple(server.slug for server in servers),
            is_found=all(_path_of(program, server, environ) for server in servers),
        )
        for program, servers in users.items()
    )


def _path_of(program: str, server: ServerConfig, environ: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=server.env.get("PATH", environ.get("PATH")))


def find_unpinned(command: str, args: Sequence[str]) -> Unpinned | None:
    """The package of a command line if its version is not fixed; None if unknown."""
    program = os.path.basename(command).removesuffix(".cmd").removesuffix(".exe")
    match program, *args[:1]:
        case ("npx" | "bunx", *_):
            return _unpinned_node(program, _package("npx", args))
        case ("npm", "exec") | ("pnpm" | "yarn", "dlx") | ("bun", "x"):
            return _unpinned_node(program, _package("npx", args[1:]))
        case ("uvx", *_):
            return _unpinned_python(program, _package("uvx", args))
        case ("uv", "tool") | ("pipx", "run"):
            # `uv tool run`, but `pipx run`.
            rest = args[2:] if program == "uv" else args[1:]
            return _unpinned_python(program, _package("uvx", rest))
        case ("docker" | "podman", "run"):
            return _unpinned_image(program, _package("docker", args[1:]))
    return None


def _package(kind: str, args: Sequence[str]) -> str | None:
    """The package in the arguments of a launcher."""
    named = _PACKAGE_OPTIONS.get(kind, ())
    words = _option_values(args, _OPTIONS_WITH_VALUE[kind])
    first = None
    for option, word in words:
        if option in named:
            return word
        if option == "":
            first = word
            break
    return first


def _option_values(args: Sequence[str], valued: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, then the first positional argument under the name `''`."""
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            continue
        if not arg.startswith("-") or arg == "-":
            yield "", arg
            return
        option, equals, value = arg.partition("=")
        if equals:
            yield option, value
        elif option in valued:
            yield option, next(rest, "")


def _unpinned_node(launcher: str, package: str | None) -> Unpinned | None:
    if package is None or "/" in package.lstrip("@").partition("/")[2] or ":" in package:
        return None  # A repository, a folder or an address.
    if not package.startswith("@") and ("/" in package or package.startswith(".")):
        return None
    name, at, version = package.rpartition("@")
    if not (at and name):
        name, version = package, ""
    if version and version not in MOVING_TAGS and _EXACT_VERSION.fullmatch(version):
        return None
    return Unpinned(
        launcher=launcher,
        package=package,
        pinned=f"{name}@VERSION",
        newest=f"npm view {name} version",
    )


def _unpinned_python(launcher: str, package: str | None) -> Unpinned | None:
    if package is None or re.search(r"://|^[./~]|\.whl$|@ ", package):
        return None
    name, exact, version = package.partition("==")
    if not exact:
        name, _, version = package.partition("@")
    if version and version not in MOVING_TAGS and _EXACT_VERSION.fullmatch(version):
        return None
    name = re.split(r"[<>=!~@]", name, maxsplit=1)[0]
    return Unpinned(
        launcher=launcher,
        package=package,
        pinned=f"{name}=={'VERSION'}" if launcher == "pipx" else f"{name}@VERSION",
        newest=f"pip index versions {name.partition('[')[0]}",
    )


def _unpinned_image(launcher: str, image: str | None) -> Unpinned | None:
    if image is None or "@sha256:" in image:
        return None
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:  # The colon is one of a port.
        name, tag = image, ""
    if tag and tag not in MOVING_TAGS:
        return None
    return Unpinned(
        launcher=launcher,
        package=image,
        pinned=f"{name}:VERSION",
        newest=f"{launcher} image ls --digests {name}",
    )
