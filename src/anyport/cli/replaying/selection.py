"""What is to be replayed: recorded exchanges, by id or by filter or from an export, or files of
requests. Nothing is sent here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from anyport.cli.ending import CommandFailed, WrongUsage
from anyport.cli.exported import is_export, names_missing_file, read_export
from anyport.cli.options import Given
from anyport.cli.recorded import Asked, recorded
from anyport.cli.replaying.recording import exchanges
from anyport.record.detail import Detail
from anyport.record.fixtures import BadFixture, Fixture, read_fixtures

EXCHANGES_MAX: Final = 1000
"""Replayed at once: more is no check, but a load."""

_ID: Final = re.compile(r"[0-9a-f]{4,32}")

HANDSHAKES_MAX: Final = 10
"""Looked at for one conversation: the last that was good is wanted."""

Handshakes: TypeAlias = Callable[[str, str], list[Detail]]
"""The last recorded handshakes that match a filter, up to a moment, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is to be replayed: one or the other."""

    exchanges: Sequence[Detail] = ()
    handshakes: Handshakes = lambda _, __: []
    fixtures: Sequence[Fixture] = ()


def select(given: Given, words: tuple[str, ...]) -> Selection:
    """What the words mean.

    Raises:
        WrongUsage: nothing, or things that cannot be mixed.
        CommandFailed: it cannot be read, or is too much.
    """
    if not words:
        raise WrongUsage("say what to replay: an id, a filter, an export, or files of requests")
    paths = [Path(word) for word in words if Path(word).exists()]
    for word in filter(names_missing_file, words):
        raise WrongUsage(f"there is no file '{word}'")
    if paths and len(paths) < len(words):
        raise WrongUsage(f"'{paths[0]}' is a file, and a filter cannot go with files")
    found = _of_files(paths) if paths else _of_record(given, words)
    if len(found.exchanges) > EXCHANGES_MAX:
        count = len(found.exchanges)
        raise CommandFailed(f"{count} exchanges match; at most {EXCHANGES_MAX} are replayed")
    if not found.exchanges and not found.fixtures:
        raise CommandFailed("nothing that is recorded matches")
    return found


def _of_record(given: Given, words: tuple[str, ...]) -> Selection:
    # The URL is where to send it; the recording is here.
    here = replace(given, url=None)

    with recorded(here) as source:
        if len(words) == 1 and _ID.fullmatch(words[0]):
            found = exchanges(source.details(words[0]))
        else:
            found = exchanges(source.everything(Asked(words)))

    def handshakes(text: str, until: str) -> list[Detail]:
        asked = Asked((text, "method:initialize", f"until:{until}"))
        with recorded(here) as source:
            rows = source.newest(asked, HANDSHAKES_MAX)
            return [detail for row in rows if row.id for detail in source.details(row.id)]

    return Selection(exchanges=found, handshakes=handshakes)


def _of_files(paths: Sequence[Path]) -> Selection:
    exports = [path for path in paths if path.is_file() and is_export(path)]
    if not exports:
        try:
            fixtures = [fixture for path in paths for fixture in read_fixtures(path)]
        except BadFixture as error:
            raise WrongUsage(str(error)) from None
        return Selection(fixtures=fixtures)
    if len(exports) < len(paths):
        raise WrongUsage("an export and files of requests cannot be replayed together")
    found = exchanges(detail for path in exports for detail in read_export(path))
    greetings = [detail for detail in found if detail.row.method == "initialize"]

    def handshakes(text: str, until: str) -> list[Detail]:
        key, _, value = text.partition(":")
        return [
            each
            for each in greetings
            if value == (each.row.client.session if key == "session" else each.row.server)
            and each.row.timestamp <= until
        ]

    return Selection(exchanges=found, handshakes=handshakes)
