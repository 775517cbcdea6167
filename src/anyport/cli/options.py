"""The options that every command understands, in one place for its two readers.

The command line proper makes its parser from them. The launcher of `stdio` reads them here
without one, because a client waits for it; what it does not understand it leaves to the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a command line says with these options."""

    config: tuple[Path, ...] = ()
    profile: str | None = None
    state_dir: Path | None = None
    json: bool = False


def read_plain(argv: Sequence[str]) -> Given | None:
    """What `argv` says, if it holds nothing but these options; None where a parser must explain."""
    known = {option.name: option for option in SHARED}
    said: dict[str, list[str]] = {option.name: [] for option in SHARED}
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
    return Given(
        config=tuple(Path(file) for file in said[CONFIG.name]),
        profile=said[PROFILE.name][-1] if said[PROFILE.name] else None,
        state_dir=Path(said[STATE_DIR.name][-1]) if said[STATE_DIR.name] else None,
        json=bool(said[JSON.name]),
    )
