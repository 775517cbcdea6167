"""Why a server, a hook or telemetry of a valid configuration would fail on this machine."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from anyport.config.model import Config, HookConfig, ServerConfig
from anyport.observe.telemetry import MISSING_MESSAGE, is_enabled, is_installed
from anyport.record.redact.escape import make_printable
from anyport.record.redact.redactor import Redactor

SPLIT_ARGS: Final = "keep {} in command and put the rest into args"
SPLIT_RUN: Final = (
    "keep {} as the first element of run, and make each argument an element of its own"
)
"""Advice where a whole command line is given as the name of a program."""


def describe_server_target(server: ServerConfig) -> str:
    """A server's command line or URL, without secrets."""
    if server.command is not None:
        text = shlex.join((server.command, *server.args))
    else:
        text = server.url or ""
    return make_printable(Redactor(server.secrets)(text))


def server_obstacles(server: ServerConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Why a server will not start on this machine, and what to do."""
    if server.disabled:
        return
    yield from server.unresolved
    if server.command is not None and not server.unresolved:
        shown = Redactor(server.secrets)
        path = server.env.get("PATH", environ.get("PATH"))
        yield from map(shown, _command_faults(server.command, path, SPLIT_ARGS))
        if server.cwd is not None and not os.path.isdir(server.cwd):
            yield shown(f"the working directory {server.cwd} does not exist; create it or fix cwd")


def hook_obstacles(hook: HookConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Why a hook will fail on this machine, and what to do."""
    # Unresolved references are warnings of the configuration already.
    if hook.run and not hook.unresolved:
        faults = _command_faults(hook.run[0], environ.get("PATH"), SPLIT_RUN)
        yield from map(Redactor(hook.secrets), faults)


def telemetry_obstacles(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    """Why telemetry will not be exported though it is enabled."""
    if is_enabled(config.telemetry, environ) and not is_installed():
        yield MISSING_MESSAGE


def _command_faults(command: str, path: str | None, split: str) -> Iterator[str]:
    """Why a command cannot be run, and what to do."""
    if shutil.which(command, path=path) is not None:
        return
    first, _, rest = command.partition(" ")
    # A command line with a slash in an argument was read as a path relative to the file.
    program = next(
        (name for name in (first, os.path.basename(first)) if _is_runnable(name, path)), None
    )
    if os.path.isdir(command):
        yield f"the command {command} is a directory; name the program in it"
    elif os.path.isfile(command):
        yield f"the command {command} is not executable; run chmod +x, or name its interpreter"
    elif rest and program is not None:
        yield (
            f"the command {command} is not found; it looks like a whole command line: "
            + split.format(os.path.basename(program))
        )
    else:
        yield f"the command {command} is not found; install it or give its full path"


def _is_runnable(program: str, path: str | None) -> bool:
    return bool(program) and shutil.which(program, path=path) is not None
