"""`anyport reload`, and its preview `anyport check --diff`: the running gateway does the work.

It reads its own files. For a preview it also starts new servers beside the running ones, to list
their tools, and applies nothing.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UnsetType

from anyport.cli.connect.http import API, ApiClient, Target, read_target
from anyport.cli.exit_codes import FAILED, SUCCESS, CommandFailed, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json
from anyport.cli.serve.config_watch import describe_changes
from anyport.cli.setup import local_url, read_config
from anyport.config.faults import ConfigError
from anyport.gateway.api.schemas import ListShift, ReloadAnswer
from anyport.gateway.config_diff import ConfigDiff
from anyport.record.redact.escape import make_printable

PREVIEW: Final = "?preview=true"


def reload(options: SharedOptions) -> int:
    """Make the running gateway reload its configuration; the exit code.

    Raises:
        CommandFailed: no gateway is running, or its configuration cannot be used.
    """
    answer = _request_reload(options)
    if options.json:
        out_json(msgspec.to_builtins(answer), indent=2)
        return SUCCESS
    diff = ConfigDiff(
        added=answer.added,
        removed=answer.removed,
        changed=answer.changed,
        profiles=answer.profiles,
        sections=answer.settings,
        at_start=answer.at_start,
    )
    for line in describe_changes(diff):
        out(line)
    return SUCCESS


def preview_reload(options: SharedOptions) -> int:
    """Show what a reload would change; the exit code, 1 for a difference, as `diff` has it.

    Raises:
        CommandFailed: no gateway is running, or its configuration cannot be used.
    """
    answer = _request_reload(options, PREVIEW)
    if options.json:
        out_json(msgspec.to_builtins(answer), indent=2)
    else:
        for line in diff_lines(answer):
            out(line)
    return FAILED if _has_changes(answer) else SUCCESS


def diff_lines(answer: ReloadAnswer) -> Iterator[str]:
    """What a reload would change, as a diff."""
    if not _has_changes(answer):
        yield "nothing would change"
        return
    for sign, kind, names in (
        ("+", "server", answer.added),
        ("-", "server", answer.removed),
        ("~", "server", answer.changed),
        ("~", "profile", answer.profiles),
        ("~", "setting", answer.settings),
    ):
        for name in names:
            when = " (after a restart)" if name in answer.at_start else ""
            yield f"{sign} {kind} {name}{when}"
    for shift in () if isinstance(answer.lists, UnsetType) else answer.lists:
        yield ""
        yield from map(make_printable, _list_diff_lines(shift))


def _list_diff_lines(shift: ListShift) -> Iterator[str]:
    yield f"{shift.kind} of profile {shift.profile}:"
    yield from (f"  + {name}" for name in shift.added)
    yield from (f"  - {name}" for name in shift.removed)
    yield from (f"  ~ {old} is renamed to {new}" for old, new in shift.renamed)
    yield from (f"  ~ {name} has another description" for name in shift.changed)


def _has_changes(answer: ReloadAnswer) -> bool:
    return any((answer.added, answer.removed, answer.changed, answer.profiles, answer.settings))


def _request_reload(options: SharedOptions, query: str = "") -> ReloadAnswer:
    async def post(target: Target) -> bytes:
        api = ApiClient(target)
        try:
            return await api.post(f"{API}/reload{query}")
        finally:
            api.close()

    return msgspec.json.decode(run_async(post(running_gateway(options))), type=ReloadAnswer)


def running_gateway(options: SharedOptions) -> Target:
    """The gateway at `--url`, or at the address in the configuration.

    Raises:
        CommandFailed: the configuration cannot be read.
    """
    if options.url is not None:
        return read_target(options, os.environ)
    try:
        config = read_config(options, os.environ, Path.cwd())
    except ConfigError as error:
        raise CommandFailed(
            "the address of the gateway is unknown, because the configuration cannot be read: "
            f"pass --url, or fix the configuration\n{error}"
        ) from None
    url = local_url(config)
    return read_target(replace(options, url=url, config=(), state_dir=None), os.environ)
