"""Transcript of one exchange for the record: its frames, when and on which side.

Only kept if the exchange is recorded. Payloads are kept as they passed and dropped with the
exchange.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

FRAMES_KEPT_MAX: Final = 256
"""Frames kept per exchange; a call that reports progress forever is cut here."""
FRAMES_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes kept per exchange; a larger payload is left out, its frame is counted."""

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
"""The direction of a frame, and whether it needs an answer. A request counts as the client's, also
if the gateway asks a server on its behalf."""

Side: TypeAlias = Literal["client", "server"]
"""The conversation in which a frame was sent."""


class TranscriptFrame(msgspec.Struct, frozen=True, gc=False):
    """One frame between the request and its answer."""

    at: float
    kind: FrameKind
    side: Side
    method: str
    size: int
    payload: bytes | None
    """Params, result or error; None if it has none or exceeds the limits."""
    failed: bool = False
    """Whether the payload is an error."""
    forwarded: bool = False
    """Whether the frame was forwarded from the other side."""


class Transcript(msgspec.Struct, kw_only=True):
    """The frames of one exchange."""

    clock: Callable[[], float]
    frames: list[TranscriptFrame] = []
    """In order of time."""
    frames_max: int = FRAMES_KEPT_MAX
    omitted_frames: int = 0
    """Number of frames that were not kept."""
    server_revision: str = ""
    server_transport: str = ""
    original_params: bytes | None = None
    """The params of the client's first request, if it has repeated it since."""
    sent_params: bytes | None = None
    """The last params that the server received."""
    first_params: bytes | None = None
    """The first params that the server received."""
    sent_at: float = 0.0
    server_answer: bytes | None = None
    """The server's last answer, a result or an error."""
    answered_at: float = 0.0
    server_failed: bool = False
    """Whether that was an error."""
    queued_seconds: float = 0.0
    """Time spent waiting for the server to start, or in its queue."""
    server_seconds: float = 0.0
    """Time spent waiting for answers of the server, all rounds together."""
    keeps_payloads: bool = False
    """Whether payloads between request and answer are recorded."""
    client_answer: bytes | None = None
    """The answer to the client, a result or an error."""
    client_answered_at: float = 0.0
    client_failed: bool = False
    """Whether that was an error."""
    _method: str = ""
    """The method of the request to the server."""
    _bytes: int = 0

    def record(
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        *,
        failed: bool = False,
    ) -> None:
        """Keep a frame that passed just now."""
        kept = payload if self.keeps_payloads else None
        self._append(
            TranscriptFrame(self.clock(), kind, side, method, _size(payload), kept, failed)
        )

    def record_forwarded(
        self,
        kind: FrameKind,
        side: Side,
        method: str,
        payload: bytes | None,
        *,
        failed: bool = False,
    ) -> None:
        """Keep a frame forwarded from the other side; it counts as the same one."""
        if self.keeps_payloads:
            size = _size(payload)
            frame = TranscriptFrame(
                self.clock(), kind, side, method, size, payload, failed, forwarded=True
            )
            self._append(frame)

    def on_request_sent(self, method: str, params: bytes) -> None:
        """The server is asked, for the first time or with the input it required."""
        if self.sent_params is not None:
            self._record_previous_answer()
            self.record("request", "server", method, params)
        else:
            self.sent_at, self.first_params = self.clock(), params
        self.sent_params, self._method = params, method

    def on_server_answer(self, answer: bytes, *, failed: bool) -> None:
        self._record_previous_answer()
        self.server_answer, self.server_failed, self.answered_at = answer, failed, self.clock()

    def on_client_answer(self, answer: bytes, *, failed: bool) -> None:
        self.client_answer, self.client_failed, self.client_answered_at = (
            answer,
            failed,
            self.clock(),
        )

    def on_client_retry(self, method: str, original: bytes, params: bytes) -> None:
        """The client repeats its request with the input that was required."""
        if self.client_answer is not None:
            self._insert_response("client", method, self.client_answered_at, self.client_answer)
        self.record("request", "client", method, params)
        self.client_answer = None
        self.original_params = original if self.original_params is None else self.original_params

    def _record_previous_answer(self) -> None:
        """The server's previous answer turned out not to be the last."""
        answer, self.server_answer = self.server_answer, None
        if answer is not None:
            self._insert_response(
                "server", self._method, self.answered_at, answer, failed=self.server_failed
            )

    def _insert_response(
        self, side: Side, method: str, at: float, answer: bytes, *, failed: bool = False
    ) -> None:
        """Insert an answer among the frames by its time; frames that followed it may be there
        already."""
        kept = answer if self.keeps_payloads else None
        self._append(TranscriptFrame(at, "response", side, method, len(answer), kept, failed))
        self.frames.sort(key=_at)

    def _append(self, frame: TranscriptFrame) -> None:
        if len(self.frames) >= self.frames_max:
            self.omitted_frames += not frame.forwarded
            return
        if frame.payload is not None:
            if self._bytes + frame.size > FRAMES_BYTES_MAX:
                frame = msgspec.structs.replace(frame, payload=None)
            else:
                self._bytes += frame.size
        self.frames.append(frame)


def _size(payload: bytes | None) -> int:
    return 0 if payload is None else len(payload)


def _at(frame: TranscriptFrame) -> float:
    return frame.at
