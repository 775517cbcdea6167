"""`anyport check`: whether the configuration can be used, and what it says. Starts nothing."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from anyport.cli.ending import FAILED, GOOD, WrongUsage, say
from anyport.cli.options import Given
from anyport.cli.ready import origin
from anyport.cli.render import out, out_json, table
from anyport.cli.setup import nothing_found, read_config
from anyport.config.address import exposure
from anyport.config.faults import ConfigError
from anyport.config.schema import DEFAULT_PROFILE, Config, HookConfig, ServerConfig
from anyport.gateway.telemetry import MISSING, installed, is_on
from anyport.record.redact import Redactor
from anyport.record.text import printable

SPLIT_ARGS: Final = "keep {} in command and put the rest into args"
SPLIT_RUN: Final = "keep {} as the first word of run and make each argument a word of its own"
"""What helps where a whole command line was taken for the name of a program."""


def check(given: Given) -> int:
    """Read the configuration and show what was found; the exit code.

    Raises:
        ConfigError: it cannot be used; with `--json` that is part of what is shown.
        WrongUsage: a gateway is named, and nobody asks for the difference.
        UnknownProfile: it has no such profile.
    """
    if given.url is not None:
        raise WrongUsage("--url asks a gateway that runs: it goes with --diff")
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
        "warnings": [*map(str, config.warnings), *telemetry_obstacles(config, environ)],
        "servers": {
            slug: {
                "reached_by": reached_by(server),
                "disabled": server.disabled,
                "warnings": list(obstacles(server, environ)),
            }
            for slug, server in config.servers.items()
        },
        "profiles": {slug: list(profile.servers) for slug, profile in config.profiles.items()},
        "hooks": {
            hook.name: {
                "on": hook.on,
                "action": hook.action,
                "target": target(hook),
                "warnings": list(hook_obstacles(hook, environ)),
            }
            for hook in config.hooks
        },
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
        yield from map(shown, _command_faults(server.command, path, SPLIT_ARGS))
        if server.cwd is not None and not os.path.isdir(server.cwd):
            yield shown(f"the working directory {server.cwd} does not exist; create it or mend cwd")


def target(hook: HookConfig) -> str:
    """A hook's URL, command line or tool, without its secrets."""
    match hook.action:
        case "post":
            text = hook.post or ""
        case "run":
            text = shlex.join(hook.run)
        case "call":
            text = "/".join(hook.call or ())
    return printable(Redactor(hook.secrets)(text))


def hook_obstacles(hook: HookConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Why a hook of a sound configuration will fail on this machine."""
    # What cannot be resolved is told already: whoever starts the gateway is warned of it, too.
    if hook.run and not hook.unresolved:
        faults = _command_faults(hook.run[0], environ.get("PATH"), SPLIT_RUN)
        yield from map(Redactor(hook.secrets), faults)


def telemetry_obstacles(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    """Why nothing will be told to a collector, though that is wanted."""
    if is_on(config.telemetry, environ) and not installed():
        yield MISSING


def _command_faults(command: str, path: str | None, split: str) -> Iterator[str]:
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
            + split.format(os.path.basename(program))
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
    if report["servers"]:
        _show_servers(report)
    else:
        out("no servers: define them under mcpServers")
    _show_hooks(report["hooks"])


def _show_servers(report: Mapping[str, Any]) -> None:
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


def _show_hooks(hooks: Mapping[str, Any]) -> None:
    if not hooks:
        return
    out("")
    table(
        ("HOOK", "ACTION", "TARGET", "ON"),
        [(name, each["action"], each["target"], each["on"]) for name, each in hooks.items()],
        whole=("HOOK", "ACTION"),
    )
    for name, each in hooks.items():
        for warning in each["warnings"]:
            say(f"warning: hook '{name}' will fail: {warning}")


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
