"""What a server is told and does not answer: notices, and the answers to its own questions.

One that has gone silent takes nothing in, and is told of every call that is given up: only so
many are under way at once, because calls need connections, too.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from anyport.upstream.http.client import CONNECTIONS_MAX, Client
from anyport.upstream.http.line import Line, Trouble
from anyport.wire.http import ReplyHead

NOTE_SECONDS_MAX: Final = 10.0
"""For a server to take one, the wait for a turn included."""
NOTES_MAX: Final = CONNECTIONS_MAX // 2
"""Under way at once."""
NOTES_WAITING_MAX: Final = 1024
"""Those that wait for their turn; the oldest makes room."""


class Notes:
    """All of one channel."""

    def __init__(self, client: Client, noticed: Callable[[Trouble], None]) -> None:
        self._client = client
        self._noticed = noticed
        self._loop = asyncio.get_running_loop()
        self._under_way: set[Note] = set()
        self._waiting: dict[Note, tuple[bytes, bytes]] = {}

    def send(self, head: bytes, frame: bytes) -> None:
        """Send one, as soon as it may be."""
        note = Note(self)
        self._loop.call_later(NOTE_SECONDS_MAX, self._give_up, note)
        if len(self._under_way) < NOTES_MAX:
            self._begin(note, head, frame)
            return
        if len(self._waiting) >= NOTES_WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[note] = head, frame

    def over(self, note: "Note", trouble: Trouble | None = None) -> None:
        """One has been taken, or has not arrived."""
        self._under_way.discard(note)
        if self._waiting:
            following = next(iter(self._waiting))
            self._begin(following, *self._waiting.pop(following))
        if trouble is not None:
            self._noticed(trouble)

    def _begin(self, note: "Note", head: bytes, frame: bytes) -> None:
        self._under_way.add(note)
        self._client.request(head, frame, note)

    def _give_up(self, note: "Note") -> None:
        self._waiting.pop(note, None)
        if note in self._under_way:
            self._client.give_up(note)
            self.over(note)


class Note:
    """Takes what becomes of one."""

    waits = None

    def __init__(self, notes: Notes) -> None:
        self.line: Line | None = None
        self._notes = notes

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """Accepted or not: there is nobody to tell."""
        self._notes.over(self)

    def opened(self, head: ReplyHead) -> None:
        """Nothing was asked."""

    def portion(self, portion: bytes) -> None:
        """Nothing was asked."""

    def closed(self, trouble: Trouble | None) -> None:
        """What nobody asked for is over."""
        self._notes.over(self)

    def failed(self, trouble: Trouble) -> None:
        """It did not arrive."""
        self._notes.over(self, trouble)
