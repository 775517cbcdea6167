"""Entry point of the test server: reads the options, and serves stdio or HTTP."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from tests.peers.demo.calls import ServerState
from tests.peers.demo.conversation import Conversation
from tests.peers.demo.faults import INVALID_REQUEST, Fault
from tests.peers.demo.legacy import LegacySession
from tests.peers.demo.messages import decode, identity_of, read_message
from tests.peers.demo.modern import ModernEra
from tests.peers.demo.options import read_options
from tests.peers.demo.revisions import Json
from tests.peers.demo.sealing import Seal
from tests.peers.demo.stdio import LINE_BYTES_MAX, Input, Output, say
from tests.peers.demo.tasks import Tasks
from tests.peers.demo.tools import start_tools

NOISE: Final = (b"Demonstration server, starting up ...", b"", b"[ok] listening on stdio")
"""What careless servers print before their first message."""
TASK_ID_BYTES: Final = 16  # Whoever knows the id has the task, so nobody may guess it.


def main(argv: list[str]) -> int:
    """Serves until the input ends, or until told to stop; returns the exit code."""
    try:
        options = read_options(argv)
    except SystemExit as told:  # The parser has said why, on stderr.
        return told.code if isinstance(told.code, int) else 2
    time.sleep(options.slow_start_seconds)
    tools = start_tools(options.filler_tools, tasks=options.tasks, apps=options.apps)
    server_state = ServerState(options, tools, lambda: Tasks(_new_task_id, time.time))
    seal = Seal(os.urandom(32), time.time)
    try:
        if options.http_port is None:
            asyncio.run(serve_pipes(server_state, seal))
            return 0
        # Imported here: a server on pipes is started often, and sooner without it.
        from tests.peers.demo.http.server import listen, serve_http  # noqa: PLC0415

        try:
            listening = listen(options.host, options.http_port)
        except OSError as error:
            say(f"cannot listen on {options.host}:{options.http_port}: {error.strerror}")
            return 1
        asyncio.run(serve_http(server_state, seal, listening))
    except KeyboardInterrupt:
        return 130
    return 0


async def serve_pipes(server_state: ServerState, seal: Seal) -> None:
    output = await Output.open()
    for line in NOISE if server_state.options.noise else ():
        output.write(line)
    async with asyncio.TaskGroup() as group:
        pipe = Pipe(server_state, seal, output.write, group)
        reading = group.create_task(Input(pipe.receive).pump())
        await asyncio.wait([reading, output.lost], return_when=asyncio.FIRST_COMPLETED)
        if output.lost.done():
            reading.cancel()
            pipe.conversation.abandon()
        else:
            await pipe.conversation.drain()
    await output.close()


class Pipe:
    """One client on one pair of pipes: whatever is sent to it takes the same way."""

    def __init__(
        self,
        server_state: ServerState,
        seal: Seal,
        write: Callable[[bytes], None],
        group: asyncio.TaskGroup,
    ) -> None:
        options = server_state.options
        self._write = write
        legacy = LegacySession(server_state, self.send, options.legacy) if options.legacy else None
        modern = ModernEra(server_state, options.modern, seal) if options.modern else None
        self.conversation = Conversation(server_state, group, legacy=legacy, modern=modern)

    def receive(self, line: bytes | None) -> None:
        """Takes one line of input; None stands for one that was too long."""
        if line is not None and not line.strip():
            return
        decoded = None
        try:
            if line is None:
                raise Fault(INVALID_REQUEST, f"Longer than {LINE_BYTES_MAX} bytes")
            decoded = decode(line)
            if isinstance(decoded, list):
                self.conversation.take_batch(decoded, self)
            else:
                self.conversation.take(read_message(decoded), self)
        except Fault as fault:
            self.send(self.conversation.refusal(identity_of(decoded), fault))

    def send(self, message: Json) -> None:
        self._write(msgspec.json.encode(message))

    def finish(self, answer: Json | list[Json] | None) -> None:
        if answer is not None:
            self._write(msgspec.json.encode(answer))


def _new_task_id() -> str:
    return secrets.token_hex(TASK_ID_BYTES)
