"""What went to and fro in one exchange, for the record: each frame, when, on which side.

Only kept where something is to be recorded. Knows no record: payloads are kept as they passed, and
forgotten with their exchange.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

FRAMES_KEPT_MAX: Final = 256
"""Frames of one exchange whose payloads are kept; a call that reports for ever is cut here."""
FRAMES_BYTES_MAX: Final = 4 * 1024 * 1024
"""What those may hold together; a larger one is counted, and its payload left out."""

FrameKind: TypeAlias = Literal[
    "request",
    "response",
    "client-notification",
    "server-notification",
    "server-request",
    "client-response",
    "stderr",
    "not-json-rpc",
]
"""Who said it to whom, and whether an answer is owed. A request is the client's, also where it is
the gateway that asks a server in its place."""

Side: TypeAlias = Literal["client", "server"]
"""In which of the two conversations a frame was said."""


class Crossing(msgspec.Struct, frozen=True, gc=False):
    """One frame between the request and the answer."""

    at: float
    kind: FrameKind
    side: Side
    method: str
    size: int
    payload: bytes | None
    """Params, result or error; None where it has none, or it was too much to keep."""
    failed: bool = False
    """Whether the payload is an error."""
    twin: bool = False
    """Whether it is what was said on the other side, passed on."""


class Passage(msgspec.Struct, kw_only=True):
    """The frames of one exchange."""

    clock: Callable[[], float]
    crossings: list[Crossing] = []
    """In the order of time."""
    kept_max: int = FRAMES_KEPT_MAX
    more: int = 0
    """Frames that were counted, and not kept."""
    server: str = ""
    server_revision: str = ""
    server_transport: str = ""
    native: str = ""
    """What the server calls what it was asked for."""
    asked: bytes | None = None
    """The params that the client came with first, where it has come back since."""
    sent: bytes | None = None
    """The params as the server got them last."""
    first: bytes | None = None
    """The params as it got them first."""
    sent_at: float = 0.0
    answer: bytes | None = None
    """The server's last answer: its result or its error."""
    answered_at: float = 0.0
    refused: bool = False
    """Whether that was an error."""
    queued: float = 0.0
    """For its server to be there, or for a place with it."""
    waited: float = 0.0
    """For its server: all its rounds together."""
    keeps: bool = False
    """Whether payloads between request and answer are wanted."""
    given: bytes | None = None
    """What the client got: a result or an error."""
    given_at: float = 0.0
    denied: bool = False
    """Whether that was an error."""
    _method: str = ""
    """What the server was asked."""
    _bytes: int = 0

    def note(
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        *,
        failed: bool = False,
    ) -> None:
        """Keep a frame that passed just now."""
        kept = payload if self.keeps else None
        self._keep(Crossing(self.clock(), kind, side, method, _size(payload), kept, failed))

    def pass_on(
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        *,
        failed: bool = False,
    ) -> None:
        """Keep what has become of a frame of the other side; it counts as the same one."""
        if self.keeps:
            size = _size(payload)
            twin = Crossing(self.clock(), kind, side, method, size, payload, failed, twin=True)
            self._keep(twin)

    def asks(self, method: str, params: bytes) -> None:
        """The server is asked: for the first time, or again with what it wanted to know."""
        if self.sent is not None:
            self._answered_before()
            self.note("request", "server", method, params)
        else:
            self.sent_at, self.first = self.clock(), params
        self.sent, self._method = params, method

    def answers(self, answer: bytes, *, failed: bool) -> None:
        """The server has answered."""
        self._answered_before()
        self.answer, self.refused, self.answered_at = answer, failed, self.clock()

    def gives(self, answer: bytes, *, failed: bool) -> None:
        """The client is answered."""
        self.given, self.denied, self.given_at = answer, failed, self.clock()

    def goes_on(self, method: str, before: bytes, params: bytes) -> None:
        """The client, told that more was needed, comes back with it."""
        if self.given is not None:
            self._settle("client", method, self.given_at, self.given)
        self.note("request", "client", method, params)
        self.given = None
        self.asked = before if self.asked is None else self.asked

    def _answered_before(self) -> None:
        """What the server has answered was not the end of it."""
        answer, self.answer = self.answer, None
        if answer is not None:
            self._settle("server", self._method, self.answered_at, answer, failed=self.refused)

    def _settle(
        self, side: Side, method: str, at: float, answer: bytes, *, failed: bool = False
    ) -> None:
        """Give an answer its place among the frames; what it led to may be there already."""
        kept = answer if self.keeps else None
        self._keep(Crossing(at, "response", side, method, len(answer), kept, failed))
        self.crossings.sort(key=_at)

    def _keep(self, crossing: Crossing) -> None:
        if len(self.crossings) >= self.kept_max:
            self.more += not crossing.twin
            return
        if crossing.payload is not None:
            if self._bytes + crossing.size > FRAMES_BYTES_MAX:
                crossing = msgspec.structs.replace(crossing, payload=None)
            else:
                self._bytes += crossing.size
        self.crossings.append(crossing)


def _size(payload: bytes | None) -> int:
    return 0 if payload is None else len(payload)


def _at(crossing: Crossing) -> float:
    return crossing.at
