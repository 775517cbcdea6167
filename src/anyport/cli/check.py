"""`anyport check`: whether the configuration can be used, and what it says. Starts nothing."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyport.cli.ending import FAILED, GOOD, say
from anyport.cli.options import Given
from anyport.cli.ready import origin
from anyport.cli.render import out, out_json, table
from anyport.cli.setup import nothing_found, read_config
from anyport.config.address import exposure
from anyport.config.faults import ConfigError
from anyport.config.schema import DEFAULT_PROFILE, Config, ServerConfig
from anyport.record.redact import Redactor
from anyport.record.text import printable


def check(given: Given) -> int:
    """Read the configuration and show what was found; the exit code.

    Raises:
        ConfigError: it cannot be used; with `--json` that is part of what is shown.
        UnknownProfile: it has no such profile.
    """
    try:
        config = read_config(given, os.environ, Path.cwd())
    except ConfigError as error:
        if not given.json:
            raise
        out_json({"ok": False, "faults": [asdict(fault) for fault in error.faults]})
        return FAILED
    if given.profile is not None:
        config.profile(given.profile)
    report = describe(config, os.environ)
    if given.json:
        out_json(report)
    else:
        _show(report)
    return GOOD


def describe(config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a configuration says, fit to be shown to anybody."""
    return {
        "ok": True,
        "files": list(config.sources),
        "listen": {
            "url": origin(config.gateway.host, config.gateway.port),
            "tokens": [token.name for token in config.gateway.tokens],
            "refused": exposure(config, config.gateway.host),
        },
        "warnings": [str(warning) for warning in config.warnings],
        "servers": {
            slug: {
                "reached_by": reached_by(server),
                "disabled": server.disabled,
                "warnings": list(obstacles(server, environ)),
            }
            for slug, server in config.servers.items()
        },
        "profiles": {slug: list(profile.servers) for slug, profile in config.profiles.items()},
        "renamed": dict(config.renamed),
    }


def reached_by(server: ServerConfig) -> str:
    """A server's command line or address, without its secrets."""
    if server.command is not None:
        text = shlex.join((server.command, *server.args))
    else:
        text = server.url or ""
    return printable(Redactor(server.secrets)(text))


def obstacles(server: ServerConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Why a server of a sound configuration will not run on this machine."""
    if server.disabled:
        return
    yield from server.unresolved
    if server.command is not None and not server.unresolved:
        shown = Redactor(server.secrets)
        path = server.env.get("PATH", environ.get("PATH"))
        yield from map(shown, _command_faults(server.command, path))
        if server.cwd is not None and not os.path.isdir(server.cwd):
            yield shown(f"the working directory {server.cwd} does not exist; create it or mend cwd")


def _command_faults(command: str, path: str | None) -> Iterator[str]:
    """Why a command cannot be run, and what to do about it."""
    if shutil.which(command, path=path) is not None:
        return
    first, _, rest = command.partition(" ")
    # With a slash in its arguments the whole was taken for a path beside the configuration.
    program = next((each for each in (first, os.path.basename(first)) if _runs(each, path)), None)
    if os.path.isdir(command):
        yield f"the command {command} is a directory; name the program in it"
    elif os.path.isfile(command):
        yield f"the command {command} is not executable; run chmod +x, or name its interpreter"
    elif rest and program is not None:
        yield (
            f"the command {command} is not found; it seems to be a whole command line: "
            f"keep {os.path.basename(program)} in command and put the rest into args"
        )
    else:
        yield f"the command {command} is not found; install it or give its full path"


def _runs(program: str, path: str | None) -> bool:
    return bool(program) and shutil.which(program, path=path) is not None


def _show(report: Mapping[str, Any]) -> None:
    sources = ", ".join(report["files"])
    out(printable(f"configuration: {sources or 'the built-in demo server'}"))
    if not sources:
        say(nothing_found(os.environ))
    _show_listening(report["listen"])
    for warning in report["warnings"]:
        say(f"warning: {warning}")
    out("")
    if not report["servers"]:
        out("no servers: define them under mcpServers")
        return
    table(
        ("SERVER", "STATE", "COMMAND OR ADDRESS"),
        [(slug, _state(each), each["reached_by"]) for slug, each in report["servers"].items()],
        whole=("SERVER", "STATE"),
    )
    out("")
    table(
        ("PROFILE", "SERVERS"),
        [(slug, ", ".join(servers)) for slug, servers in report["profiles"].items()],
    )
    if len(report["profiles"]) > 1 and DEFAULT_PROFILE not in report["profiles"]:
        out(f"\N{BULLET} no profile is called {DEFAULT_PROFILE}: clients name one with --profile")
    for name, slug in report["renamed"].items():
        out(printable(f"\N{BULLET} {name!r} is called {slug} here"))
    for slug, each in report["servers"].items():
        for warning in each["warnings"]:
            say(f"warning: server '{slug}' will not start: {warning}")


def _show_listening(listen: Mapping[str, Any]) -> None:
    asked = (
        f"with a token: {', '.join(listen['tokens'])}" if listen["tokens"] else "without a token"
    )
    out(f"'anyport serve' listens at {listen['url']}, {asked}")
    if listen["refused"] is not None:
        say(f"warning: 'anyport serve' will not start: {listen['refused']}")


def _state(server: Mapping[str, Any]) -> str:
    if server["disabled"]:
        return "disabled"
    return "will not start" if server["warnings"] else "good"
