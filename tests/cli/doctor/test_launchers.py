"""Programs that fetch servers."""

import os
from pathlib import Path

from anyport.cli.doctor.launchers import find_launchers, find_unpinned
from tests.cli.doctor.facts import config, server

PINNED = {
    "npx -y @scope/pkg": "@scope/pkg@VERSION",
    "npx -y @scope/pkg@latest stdio": "@scope/pkg@VERSION",
    "npx pkg": "pkg@VERSION",
    "npx -y pkg@^1.2.3": "pkg@VERSION",
    "npx --package=@scope/pkg command": "@scope/pkg@VERSION",
    "npx -y -p pkg command@1.2.3": "pkg@VERSION",
    "/usr/bin/npx.cmd -y pkg": "pkg@VERSION",
    "bunx pkg": "pkg@VERSION",
    "npm exec pkg": "pkg@VERSION",
    "pnpm dlx pkg": "pkg@VERSION",
    "uvx pkg": "pkg@VERSION",
    "uvx pkg[extra]": "pkg[extra]@VERSION",
    "uvx --from pkg>=1 command": "pkg@VERSION",
    "uvx --python 3.12 pkg@latest": "pkg@VERSION",
    "uv tool run pkg": "pkg@VERSION",
    "pipx run pkg": "pkg==VERSION",
    "docker run -i --rm -e TOKEN ghcr.io/a/b": "ghcr.io/a/b:VERSION",
    "docker run localhost:5000/a:latest": "localhost:5000/a:VERSION",
    "podman run -v /a:/b image": "image:VERSION",
}


def pinned_form(line: str) -> str | None:
    command, *args = line.split()
    unpinned = find_unpinned(command, args)
    return None if unpinned is None else unpinned.pinned


def test_a_package_without_a_version_is_another_one_tomorrow() -> None:
    assert {line: pinned_form(line) for line in PINNED} == PINNED


def test_what_is_pinned_or_lies_here_already_is_good() -> None:
    lines = [
        "npx -y @scope/pkg@1.2.3",
        "npx pkg@2025.4.8 stdio",
        "npx -y github:owner/repository",
        "npx ./folder",
        "npx",
        "uvx pkg@1.2.3",
        "uvx pkg==1.2.3",
        "uvx --from pkg==1.2.3 command",
        "uvx --from git+https://example.com/a.git command",
        "pipx run ./wheel.whl",
        "uv run server.py",
        "npm run start",
        "docker run image:1.2",
        "docker run localhost:5000/image:1",
        "docker run image@sha256:00",
        "docker exec container server",
        "node server.js",
    ]
    assert [line for line in lines if pinned_form(line) is not None] == []


def test_launchers_are_looked_for_on_the_path_of_each_server(tmp_path: Path) -> None:
    npx = tmp_path / "npx"
    npx.write_text("#!/bin/sh\n")
    npx.chmod(0o700)
    here, nowhere = str(tmp_path), os.path.join(tmp_path, "nowhere")
    servers = (
        server("files", "npx"),
        server("tickets", "npx", env={"PATH": nowhere}),
        server("images", "docker"),
        server("off", "uvx", disabled=True),
        server("own", "/opt/server"),
    )

    found = find_launchers(config(*servers), {"PATH": here})

    told = [(each.program, each.servers, each.is_found) for each in found]
    assert told == [("npx", ("files", "tickets"), False), ("docker", ("images",), False)]
    (first, *_) = find_launchers(config(servers[0]), {"PATH": here})
    assert first.is_found
