"""The journal of a gateway that runs elsewhere, copied to where commands can read it.

What is asked for comes page by page from the gateway's API into a folder for the time of one
command, and is then read like a journal of one's own: the same index, filters and counts.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol
from urllib.parse import urlencode

import msgspec

from anyport.cli import places
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.reach import API, Reach, no_gateway
from anyport.cli.target import Target, read_target
from anyport.gateway.tools import EVENTS_LIMIT_MAX
from anyport.record.filter_tree import Filter
from anyport.record.segments import FILE_NAME

COPIED_EVENTS_MAX: Final = 20_000
"""Of one look: what takes a second or two to fetch, and more than a person reads."""


class Source(Protocol):
    """A journal that can be read, here or elsewhere."""

    @property
    def state_dir(self) -> Path:
        """What it lies below."""

    @property
    def complete(self) -> bool:
        """Whether it holds all that was asked for."""

    @property
    def look_seconds(self) -> float:
        """Between two looks, for those who follow it."""

    def refresh(self) -> None:
        """Bring what has happened since."""

    def to_sort_out(self, filter: Filter) -> Filter:
        """What of a filter is still to be decided on what lies here."""


class Own:
    """The journal of this machine's user; whoever writes it, it grows by itself."""

    complete = True
    look_seconds = 0.25
    """Soon enough for eyes, seldom enough for the disk."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def refresh(self) -> None:
        """Nothing to do."""

    def to_sort_out(self, filter: Filter) -> Filter:
        """All of it."""
        return filter


class Page(msgspec.Struct, frozen=True):
    """Some events, oldest first."""

    events: list[msgspec.Raw]
    next_cursor: str | None = None
    """For older ones."""


class Stamp(msgspec.Struct, frozen=True):
    """When an event happened."""

    timestamp: str


class Copied:
    """A copy of what matches a question, and of what comes to match it."""

    look_seconds = 1.0
    """A gateway has more to do than to answer us."""

    def __init__(
        self, target: Target, question: Mapping[str, str], events_max: int, state_dir: Path
    ) -> None:
        self.state_dir = state_dir
        self.complete = True
        self._target = target
        self._question = dict(question)
        self._events_max = events_max
        self._newest: set[bytes] = set()
        """The events of the newest moment that is copied: the next look begins with it."""
        (state_dir / "events").mkdir()

    def refresh(self) -> None:
        """Bring what has happened since.

        Raises:
            CommandFailed: the gateway does not answer.
        """
        fresh = [line for line in run(self._fetch()) if line not in self._newest]
        self._events_max = COPIED_EVENTS_MAX  # Of what comes from now on, nothing is left out.
        if not fresh:
            return
        for month, lines in groupby(fresh, key=lambda line: _moment(line)[: len("2026-07")]):
            folder = self.state_dir / "events" / month
            folder.mkdir(exist_ok=True)
            with (folder / FILE_NAME).open("ab") as file:
                file.writelines(line + b"\n" for line in lines)
        last = _moment(fresh[-1])
        if self._question.get("since") != last:
            self._newest.clear()
        self._question["since"] = last
        self._newest |= {line for line in fresh if _moment(line) == last}

    def to_sort_out(self, filter: Filter) -> Filter:
        """Nothing: only what matches was copied. The gateway sees more of it than we do."""
        return Filter()

    async def _fetch(self) -> list[bytes]:
        pages: list[list[msgspec.Raw]] = []
        limit = min(self._events_max, EVENTS_LIMIT_MAX)
        question = self._question | {"limit": str(limit)}
        reach = Reach(self._target)
        try:
            while True:
                raw = await reach.get(f"{API}/events?{urlencode(question)}")
                try:
                    page = msgspec.json.decode(raw, type=Page)
                except msgspec.DecodeError:
                    raise no_gateway(self._target) from None
                pages.append(page.events)
                if page.next_cursor is None:
                    break
                if len(pages) * limit >= self._events_max:
                    self.complete = False
                    break
                question["cursor"] = page.next_cursor
        finally:
            reach.close()
        return [bytes(event) for page in reversed(pages) for event in page]


@contextmanager
def journal(
    given: Given, question: Mapping[str, str | None], events_max: int = COPIED_EVENTS_MAX
) -> Iterator[Source]:
    """The journal that the command line asks for; of one elsewhere, what answers the question.

    Raises:
        CommandFailed: the gateway does not answer.
        WrongUsage: the options contradict each other.
    """
    if given.url is None:
        yield Own(places.state_dir(given.state_dir, os.environ))
        return
    target = read_target(given, os.environ)
    said = {name: value for name, value in question.items() if value is not None}
    with TemporaryDirectory(prefix="anyport-") as folder:
        copied = Copied(target, said, events_max, Path(folder))
        copied.refresh()
        yield copied


def _moment(line: bytes) -> str:
    return msgspec.json.decode(line, type=Stamp).timestamp
