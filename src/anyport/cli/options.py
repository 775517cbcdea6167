"""The options that every command understands, in one place for its two readers.

The command line proper makes its parser from them. `stdio` and `serve` read them here without
one: a client waits for the first, and the second runs for months and should hold nothing that it
does not need. What is not understood here is left to the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, as people write it."""

    name: str
    explained: str
    metavar: str = ""
    """What its value is called; empty for a switch."""
    repeatable: bool = False


CONFIG: Final = Option(
    name="--config",
    metavar="FILE",
    repeatable=True,
    explained="A configuration file; of several, later ones win.",
)
PROFILE: Final = Option(
    name="--profile",
    metavar="NAME",
    explained="The profile; else 'default', or the only one.",
)
STATE_DIR: Final = Option(
    name="--state-dir",
    metavar="DIR",
    explained="Where the journal lies; else ANYPORT_STATE_DIR.",
)
JSON: Final = Option(name="--json", explained="Print JSON, for programs.")

SHARED: Final = (CONFIG, PROFILE, STATE_DIR, JSON)

URL: Final = Option(
    name="--url",
    metavar="URL",
    explained="Ask a gateway that runs there; starts none.",
)
TOKEN: Final = Option(
    name="--token",
    metavar="TOKEN",
    explained="Its bearer token; else ANYPORT_TOKEN.",
)

REMOTE: Final = (URL, TOKEN)
"""For commands that can ask a running gateway instead of starting one."""

PORT_MAX: Final = 65535

HOST: Final = Option(
    name="--host",
    metavar="HOST",
    explained="Where to listen; else as configured, or 127.0.0.1.",
)
PORT: Final = Option(
    name="--port",
    metavar="PORT",
    explained="Else as configured, or 8640; 0 takes any that is free.",
)


UPGRADE: Final = Option(
    name="--upgrade",
    explained="Take over from the gateway that runs there, if one does.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a command line says with these options."""

    config: tuple[Path, ...] = ()
    profile: str | None = None
    state_dir: Path | None = None
    json: bool = False
    url: str | None = None
    """A gateway that is asked instead of one that is started."""
    token: str | None = field(default=None, repr=False)


def read_plain(argv: Sequence[str]) -> Given | None:
    """What `argv` says, if it holds nothing but these options; None where a parser must explain."""
    said = _read(argv, SHARED)
    return None if said is None else _given(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where `serve` is to listen; what is left out, the configuration says."""

    host: str | None = None
    port: int | None = None
    upgrade: bool = False
    """In place of the gateway that does so now."""


def read_plain_serve(argv: Sequence[str]) -> tuple[Given, Listening] | None:
    """The same for `serve`, which has three options more."""
    said = _read(argv, (*SHARED, HOST, PORT, UPGRADE))
    if said is None:
        return None
    host, port = _last(said[HOST.name]), _last(said[PORT.name])
    if port is not None and not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        return None
    number = None if port is None else int(port)
    return _given(said), Listening(host=host, port=number, upgrade=bool(said[UPGRADE.name]))


def _read(argv: Sequence[str], options: Sequence[Option]) -> dict[str, list[str]] | None:
    """Every value of every option; None if there is anything else."""
    known = {option.name: option for option in options}
    said: dict[str, list[str]] = {option.name: [] for option in options}
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        option = known.get(name)
        if option is None or (equals and not option.metavar):
            return None
        if option.metavar and not equals:
            following = next(rest, None)
            if following is None:
                return None
            value = following
        said[name].append(value)
    return said


def _given(said: dict[str, list[str]]) -> Given:
    state_dir = _last(said[STATE_DIR.name])
    return Given(
        config=tuple(Path(file) for file in said[CONFIG.name]),
        profile=_last(said[PROFILE.name]),
        state_dir=None if state_dir is None else Path(state_dir),
        json=bool(said[JSON.name]),
    )


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None
