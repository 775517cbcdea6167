"""`anyport check`: validates the configuration and prints a summary. Starts nothing."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyport.cli.exit_codes import FAILED, SUCCESS, WrongUsage, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json, table
from anyport.cli.preflight import (
    describe_server_target,
    hook_obstacles,
    server_obstacles,
    telemetry_obstacles,
)
from anyport.cli.setup import describe_nothing_found, origin_url, read_config
from anyport.config.addresses import explain_exposure
from anyport.config.faults import ConfigError
from anyport.config.model import DEFAULT_PROFILE, Config, HookConfig
from anyport.record.redact.escape import make_printable
from anyport.record.redact.redactor import Redactor


def check(options: SharedOptions) -> int:
    """Validate the configuration and print a summary; the exit code.

    Raises:
        ConfigError: the configuration cannot be used; with `--json` the faults are printed instead.
        WrongUsage: `--url` without `--diff`.
        UnknownProfile: there is no such profile.
    """
    if options.url is not None:
        raise WrongUsage("--url needs --diff, which asks the running gateway")
    try:
        config = read_config(options, os.environ, Path.cwd())
    except ConfigError as error:
        if not options.json:
            raise
        out_json({"ok": False, "faults": [asdict(fault) for fault in error.faults]})
        return FAILED
    if options.profile is not None:
        config.profile(options.profile)
    report = describe(config, os.environ)
    if options.json:
        out_json(report)
    else:
        _show(report)
    return SUCCESS


def describe(config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """A summary of the configuration, without secrets."""
    return {
        "ok": True,
        "files": list(config.sources),
        "listen": {
            "url": origin_url(config.gateway.host, config.gateway.port),
            "tokens": [token.name for token in config.gateway.tokens],
            "refused": explain_exposure(config, config.gateway.host),
        },
        "warnings": [*map(str, config.warnings), *telemetry_obstacles(config, environ)],
        "servers": {
            slug: {
                "reached_by": describe_server_target(server),
                "disabled": server.disabled,
                "warnings": list(server_obstacles(server, environ)),
            }
            for slug, server in config.servers.items()
        },
        "profiles": {slug: list(profile.servers) for slug, profile in config.profiles.items()},
        "hooks": {
            hook.name: {
                "on": hook.on,
                "action": hook.action,
                "target": describe_hook_target(hook),
                "warnings": list(hook_obstacles(hook, environ)),
            }
            for hook in config.hooks
        },
        "renamed": dict(config.renamed),
    }


def describe_hook_target(hook: HookConfig) -> str:
    """A hook's URL, command line or tool, without secrets."""
    match hook.action:
        case "post":
            text = hook.post or ""
        case "run":
            text = shlex.join(hook.run)
        case "call":
            text = "/".join(hook.call or ())
    return make_printable(Redactor(hook.secrets)(text))


def _show(report: Mapping[str, Any]) -> None:
    sources = ", ".join(report["files"])
    out(make_printable(f"configuration: {sources or 'the built-in demo server'}"))
    if not sources:
        notify_user(describe_nothing_found(os.environ))
    _show_listening(report["listen"])
    for warning in report["warnings"]:
        notify_user(f"warning: {warning}")
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
        no_wrap=("SERVER", "STATE"),
    )
    out("")
    table(
        ("PROFILE", "SERVERS"),
        [(slug, ", ".join(servers)) for slug, servers in report["profiles"].items()],
    )
    if len(report["profiles"]) > 1 and DEFAULT_PROFILE not in report["profiles"]:
        out(f"\N{BULLET} no profile is called {DEFAULT_PROFILE}: clients choose one with --profile")
    for name, slug in report["renamed"].items():
        out(make_printable(f"\N{BULLET} {name!r} is renamed to {slug}"))
    for slug, each in report["servers"].items():
        for warning in each["warnings"]:
            notify_user(f"warning: server '{slug}' will not start: {warning}")


def _show_hooks(hooks: Mapping[str, Any]) -> None:
    if not hooks:
        return
    out("")
    table(
        ("HOOK", "ACTION", "TARGET", "ON"),
        [(name, each["action"], each["target"], each["on"]) for name, each in hooks.items()],
        no_wrap=("HOOK", "ACTION"),
    )
    for name, each in hooks.items():
        for warning in each["warnings"]:
            notify_user(f"warning: hook '{name}' will fail: {warning}")


def _show_listening(listen: Mapping[str, Any]) -> None:
    requirement = (
        f"with a token: {', '.join(listen['tokens'])}" if listen["tokens"] else "without a token"
    )
    out(f"'anyport serve' listens at {listen['url']}, {requirement}")
    if listen["refused"] is not None:
        notify_user(f"warning: 'anyport serve' will not start: {listen['refused']}")


def _state(server: Mapping[str, Any]) -> str:
    if server["disabled"]:
        return "disabled"
    return "will not start" if server["warnings"] else "good"
