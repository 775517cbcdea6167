"""The options that commands share, and a small parser for `stdio` and `serve`.

Other command lines are parsed by click. Importing click costs time, which a client that starts
`anyport stdio` waits for, and memory, which `anyport serve` would hold for months. What the small
parser does not understand is left to click.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the command line."""

    name: str
    help: str
    metavar: str = ""
    """Placeholder of the value; empty for a flag."""
    repeatable: bool = False


CONFIG: Final = Option(
    name="--config",
    metavar="FILE",
    repeatable=True,
    help="A configuration file; can be repeated, later files win.",
)
PROFILE: Final = Option(
    name="--profile", metavar="NAME", help="The profile; by default 'default', or the only one."
)
STATE_DIR: Final = Option(
    name="--state-dir", metavar="DIR", help="The state directory [env: ANYPORT_STATE_DIR]."
)
JSON: Final = Option(name="--json", help="Print JSON.")

SHARED_OPTIONS: Final = (CONFIG, PROFILE, STATE_DIR, JSON)

URL: Final = Option(name="--url", metavar="URL", help="Use the running gateway at this URL.")
TOKEN: Final = Option(
    name="--token", metavar="TOKEN", help="The bearer token for --url [env: ANYPORT_TOKEN]."
)

REMOTE_OPTIONS: Final = (URL, TOKEN)
"""For commands that can use a running gateway instead of starting one."""

PORT_MAX: Final = 65535

HOST: Final = Option(
    name="--host", metavar="HOST", help="The address to listen on; by default as configured."
)
PORT: Final = Option(
    name="--port", metavar="PORT", help="The port; by default as configured. 0: any free port."
)


TRANSPARENT: Final = Option(name="--transparent", help="Show the profile's only server unchanged.")
COMMAND_SEPARATOR: Final = "--"
"""Followed by the command of a server that replaces the configured ones."""

UPGRADE: Final = Option(name="--upgrade", help="Take over from the gateway that listens there.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The values of the options that commands share."""

    config: tuple[Path, ...] = ()
    profile: str | None = None
    state_dir: Path | None = None
    json: bool = False
    transparent: bool = False
    command: tuple[str, ...] = ()
    """Starts a server that replaces the configured ones."""
    url: str | None = None
    """Of a running gateway, used instead of starting one."""
    token: str | None = field(default=None, repr=False)


def parse_plain(argv: Sequence[str]) -> SharedOptions | None:
    """The options of `anyport stdio`; None for what click must parse or explain."""
    plain, command = split_command(argv)
    values = None if command == () else _parse_options(plain, (*SHARED_OPTIONS, TRANSPARENT))
    return None if values is None else _make_shared_options(values, command or ())


def split_command(argv: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...] | None]:
    """The arguments for Anyport, and the command after `--`; None without a `--`."""
    if COMMAND_SEPARATOR not in argv:
        return argv, None
    end = argv.index(COMMAND_SEPARATOR)
    return argv[:end], tuple(argv[end + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where `serve` listens; None for the value in the configuration."""

    host: str | None = None
    port: int | None = None
    upgrade: bool = False


def parse_plain_serve(argv: Sequence[str]) -> tuple[SharedOptions, ListenOptions] | None:
    """The options of `anyport serve`; None for what click must parse or explain."""
    plain, command = split_command(argv)
    values = (
        None
        if command == ()
        else _parse_options(plain, (*SHARED_OPTIONS, TRANSPARENT, HOST, PORT, UPGRADE))
    )
    if values is None:
        return None
    host, port = _last_value(values[HOST.name]), _last_value(values[PORT.name])
    if port is not None and not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        return None
    number = None if port is None else int(port)
    options = _make_shared_options(values, command or ())
    return options, ListenOptions(host=host, port=number, upgrade=bool(values[UPGRADE.name]))


def _parse_options(argv: Sequence[str], options: Sequence[Option]) -> dict[str, list[str]] | None:
    """The values of each option; None if there is anything else."""
    by_name = {option.name: option for option in options}
    values: dict[str, list[str]] = {option.name: [] for option in options}
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        option = by_name.get(name)
        if option is None or (equals and not option.metavar):
            return None
        if option.metavar and not equals:
            following = next(rest, None)
            if following is None:
                return None
            value = following
        values[name].append(value)
    return values


def _make_shared_options(values: dict[str, list[str]], command: tuple[str, ...]) -> SharedOptions:
    state_dir = _last_value(values[STATE_DIR.name])
    return SharedOptions(
        config=tuple(Path(file) for file in values[CONFIG.name]),
        profile=_last_value(values[PROFILE.name]),
        state_dir=None if state_dir is None else Path(state_dir),
        json=bool(values[JSON.name]),
        transparent=bool(values[TRANSPARENT.name]),
        command=command,
    )


def _last_value(values: list[str]) -> str | None:
    return values[-1] if values else None
