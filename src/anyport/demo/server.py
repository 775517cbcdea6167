"""The demonstration server: reads messages, finds their era, sees that each gets its one answer.

A request that can be answered at once is; one that must wait becomes a task of the server's group.
What the methods do is not known here.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import msgspec

from anyport.demo.calls import Call, Method, Request, World
from anyport.demo.faults import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Fault,
    NeedsClient,
)
from anyport.demo.legacy import LegacySession
from anyport.demo.modern import DISCOVER, LISTEN, UNKNOWN_TO_LEGACY, ModernEra, is_enveloped
from anyport.demo.options import Options, read_options
from anyport.demo.revisions import REVISIONS, Json
from anyport.demo.sealing import Seal
from anyport.demo.stdio import LINE_BYTES_MAX, Input, Output, say
from anyport.demo.tools import start_tools

NOISE: Final = (b"Demonstration server, starting up ...", b"", b"[ok] listening on stdio")
"""What careless servers print before their first message."""

Finish: TypeAlias = Callable[[Json | None], None]
"""Called once for each message that came in: with its answer, or None if it gets none."""

Identity: TypeAlias = str | int


def main(argv: list[str]) -> int:
    """Serves standard input until it ends; returns the exit code."""
    try:
        options = read_options(argv)
    except SystemExit as told:  # The parser has said why, on stderr.
        return told.code if isinstance(told.code, int) else 2
    time.sleep(options.slow_start_seconds)
    try:
        asyncio.run(serve(options))
    except KeyboardInterrupt:
        return 130
    return 0


async def serve(options: Options) -> None:
    output = await Output.open()
    for line in NOISE if options.noise else ():
        output.write(line)
    async with asyncio.TaskGroup() as group:
        server = Server(options, output.write, group, Seal(os.urandom(32), time.time))
        reading = group.create_task(Input(server.receive).pump())
        await asyncio.wait([reading, output.lost], return_when=asyncio.FIRST_COMPLETED)
        if output.lost.done():
            reading.cancel()
            server.abandon()
        else:
            await server.drain()
    await output.close()


class Era(Protocol):
    def open(self, request: Request) -> tuple[Call, Method]:
        """Judges a request.

        Raises:
            Fault: it may not be answered.
        """


class Server:
    """One client's end of the pipe."""

    def __init__(
        self,
        options: Options,
        write: Callable[[bytes], None],
        group: asyncio.TaskGroup,
        seal: Seal,
    ) -> None:
        known = {name: row for name, row in REVISIONS.items() if name in options.revisions}
        legacy = {name: row for name, row in known.items() if not row.enveloped}
        modern = {name: row for name, row in known.items() if row.enveloped}
        world = World(options, start_tools(options.filler_tools))
        self._options = options
        self._write = write
        self._group = group
        self._legacy = LegacySession(world, self._send, legacy) if legacy else None
        self._modern = ModernEra(world, self._send, modern, seal) if modern else None
        self._calls: dict[Identity, _Flight] = {}
        self._streams: dict[Identity, _Flight] = {}
        """Subscriptions, which end only with the server."""

    def receive(self, line: bytes | None) -> None:
        """Takes one line of input; None stands for one that was too long."""
        if line is None:
            self._refuse(Fault(INVALID_REQUEST, f"Longer than {LINE_BYTES_MAX} bytes"))
            return
        if not line.strip():
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._refuse(Fault(PARSE_ERROR, "Parse error: not valid JSON"))
            return
        if isinstance(message, list):
            self._take_batch(message)
        else:
            self._take(message, self._finish_alone)

    async def drain(self) -> None:
        """Finishes what was begun: the calls first, then the subscriptions."""
        if self._legacy is not None:
            self._legacy.hang_up()
        while self._calls:
            await asyncio.wait([flight.task for flight in self._calls.values()])
        if self._modern is not None:
            self._modern.closing.set()

    def abandon(self) -> None:
        """Drops everything: nobody reads the answers any more."""
        for identity in [*self._calls, *self._streams]:
            self._cancel(identity)
        if self._legacy is not None:
            self._legacy.hang_up()

    def _take_batch(self, messages: list[Any]) -> None:
        legacy = self._legacy
        if legacy is None or not legacy.begun or not legacy.revision.batches or not messages:
            self._refuse(Fault(INVALID_REQUEST, "A message must be one JSON object"))
            return
        batch = _Batch(len(messages), self._send)
        for message in messages:
            if isinstance(message, dict) and is_enveloped(message.get("params")):
                fault = Fault(INVALID_REQUEST, "This revision has no batches")
                batch.finish(self._error(message.get("id"), fault))
            else:
                self._take(message, batch.finish)

    def _take(self, message: Any, finish: Finish) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            identity = message.get("id") if isinstance(message, dict) else None
            finish(self._error(identity, Fault(INVALID_REQUEST, "Not a JSON-RPC 2.0 message")))
            return
        method, params, identity = message.get("method"), message.get("params"), message.get("id")
        if isinstance(method, str) and "id" in message and _is_identity(identity):
            self._take_request(identity, method, params, finish)
        elif isinstance(method, str) and "id" not in message:
            self._take_notification(method, params)
            finish(None)
        elif method is None and ("result" in message or "error" in message):
            if self._legacy is not None:
                self._legacy.answered(message)
            finish(None)
        else:
            fault = Fault(INVALID_REQUEST, "Neither a request, a notification nor a response")
            finish(self._error(identity, fault))

    def _take_notification(self, method: str, params: Any) -> None:
        if method == "notifications/initialized" and self._legacy is not None:
            self._group.create_task(self._legacy.initialized())
        elif method == "notifications/cancelled" and isinstance(params, dict):
            identity = params.get("requestId")
            if _is_identity(identity):
                self._cancel(identity)

    def _take_request(self, identity: Identity, method: str, params: Any, finish: Finish) -> None:
        if method == DISCOVER and self._options.die_on_discover:
            say("server/discover: unknown method, giving up")
            os._exit(1)
        try:
            if identity in self._calls or identity in self._streams:
                raise Fault(INVALID_REQUEST, f"The id {identity!r} is in use")
            if params is not None and not isinstance(params, dict):
                raise Fault(INVALID_PARAMS, "'params' must be an object")
            request = Request(identity=identity, method=method, params=params or {})
            call, run = self._era(request).open(request)
            work = run(call, request.params)
            if isinstance(work, dict):
                finish(_result(identity, call.complete(work)))
                return
        except Exception as error:  # noqa: BLE001 - every request is answered, come what may.
            finish(self._error(identity, _fault(error)))
            return
        self._start(call, work, finish)

    def _start(self, call: Call, work: Coroutine[Any, Any, Json], finish: Finish) -> None:
        identity = call.request.identity
        waiting = self._streams if call.request.method == LISTEN else self._calls
        task = self._group.create_task(self._wait(call, work, finish))
        waiting[identity] = _Flight(call=call, task=task)
        task.add_done_callback(lambda _task: waiting.pop(identity))

    async def _wait(self, call: Call, work: Coroutine[Any, Any, Json], finish: Finish) -> None:
        """Answers when the work is done; a call that was cancelled is never answered."""
        identity = call.request.identity
        try:
            try:
                result = call.complete(await work)
            except NeedsClient as need:
                result = call.without_client(need)
            answer = _result(identity, result)
        except asyncio.CancelledError:
            finish(None)
            raise
        except Exception as error:  # noqa: BLE001 - every request is answered, come what may.
            answer = self._error(identity, _fault(error))
        finish(None if call.cancelled else answer)

    def _cancel(self, identity: Identity) -> None:
        """Stops a call. An unknown one is over already, which is no fault of anybody's."""
        flight = self._calls.get(identity) or self._streams.get(identity)
        if flight is not None:
            flight.call.cancelled = True
            # Not at once: a call that came just before must have begun, or it cannot clean up.
            asyncio.get_running_loop().call_soon(flight.task.cancel)

    def _era(self, request: Request) -> Era:
        """Decides anew for each message: one pipe may carry both eras at once."""
        if self._legacy is None or self._modern is None:
            era = self._legacy or self._modern
            assert era is not None, "the options leave at least one revision"
            return era
        if request.method == "initialize":
            return self._legacy
        if request.method in UNKNOWN_TO_LEGACY or is_enveloped(request.params):
            return self._modern
        return self._legacy

    def _refuse(self, fault: Fault) -> None:
        self._send(self._error(None, fault))

    def _error(self, identity: Any, fault: Fault) -> Json:
        if _is_identity(identity):
            return {"jsonrpc": "2.0", "id": identity, "error": fault.to_json()}
        if self._legacy is None or self._legacy.revision.error_id_optional:
            return {"jsonrpc": "2.0", "error": fault.to_json()}
        return {"jsonrpc": "2.0", "id": None, "error": fault.to_json()}

    def _finish_alone(self, answer: Json | None) -> None:
        if answer is not None:
            self._send(answer)

    def _send(self, message: Json | list[Json]) -> None:
        self._write(msgspec.json.encode(message))


class _Flight(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for its answer."""

    call: Call
    task: asyncio.Task[None]


class _Batch:
    """Gathers the answers to one batch, and sends them together when the last is there."""

    def __init__(self, size: int, send: Callable[[list[Json]], None]) -> None:
        self._unfinished = size
        self._send = send
        self._answers: list[Json] = []

    def finish(self, answer: Json | None) -> None:
        self._unfinished -= 1
        if answer is not None:
            self._answers.append(answer)
        if not self._unfinished and self._answers:
            self._send(self._answers)


def _result(identity: Identity, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def _is_identity(value: Any) -> TypeGuard[Identity]:
    """A request's id is a string or an integer, and never null."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _fault(error: Exception) -> Fault:
    if isinstance(error, Fault):
        return error
    say(f"internal fault: {type(error).__name__}: {error}")
    return Fault(INTERNAL_ERROR, "Internal error")
