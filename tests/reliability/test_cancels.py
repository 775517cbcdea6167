"""Calls that nobody wants any more, given up in every way and at every moment.

The server is told, an answer that comes too late reaches nobody, and nothing is left of it all.
"""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.rig.holding_servers import HoldingServer, HttpHoldingServer, StdioHoldingServer
from tests.rig.in_process import InProcessGateway, in_process_gateway, run_bounded
from tests.rig.probe import check_journal, text_of
from tests.rig.raw_http_client import (
    STREAM,
    RawConnection,
    RawHttpClient,
    head,
    modern,
    post,
    tool_call,
)
from tests.rig.scale import measured, scaled
from tests.rig.toxic_proxy import RESET
from tests.upstream.fakes import until

pytestmark = pytest.mark.slow

CANCELS: Final = scaled(15, full=500)  # Of each kind at each server: in full 10,000 in all.
AT_ONCE: Final = 8
CALLS_AFTER: Final = scaled(25, full=2_500)  # At each server.
CANCELLED: Final = -32800

aside: Final = asyncio.to_thread


class Held:
    """A call under way, by a client that is going to give it up."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name

    async def begin(self, server: str) -> None:
        """Send it."""
        raise NotImplementedError

    async def give_up(self) -> None:
        """Cancel it."""
        raise NotImplementedError

    async def ending(self) -> Message | None:
        """What comes of it after all; None if nobody can tell any more."""
        return None

    async def close(self) -> None:
        """Go."""


class Notifying(Held):
    """Says so."""

    async def begin(self, server: str) -> None:
        self.visitor = await aside(RawHttpClient, self.port)
        call = tool_call(f"{server}__hold", {"text": self.name}, self.name)
        self.visitor.wire.send(post(call, self.visitor.fields))

    async def give_up(self) -> None:
        params = {"requestId": self.name}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await aside(self.visitor.tell, message)

    async def ending(self) -> Message | None:
        return (await aside(self.visitor.wire.reply)).message

    async def close(self) -> None:
        self.visitor.close()


class Leaving(Notifying):
    """Ends its session."""

    async def give_up(self) -> None:
        with RawConnection(self.port) as wire:
            gone = await aside(wire.ask, head("DELETE", "/mcp", self.visitor.fields))
        assert gone.status in (200, 204), gone


class HangingUp(Held):
    """A modern client that closes the connection."""

    async def begin(self, server: str) -> None:
        self.wire = RawConnection(self.port)
        self.wire.send(modern(tool_call(f"{server}__hold", {"text": self.name})))

    async def give_up(self) -> None:
        self.wire.close()


class Killed(HangingUp):
    """One whose connection is reset, as when its process is killed with bytes unread."""

    async def give_up(self) -> None:
        self.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.wire.close()


class Older(Held):
    """A client of the oldest transport whose stream is closed."""

    async def begin(self, server: str) -> None:
        self.stream = RawConnection(self.port)
        self.stream.send(head("GET", "/mcp", {"Accept": STREAM}))
        await aside(self.stream.head)
        endpoint = await aside(next, self.stream.pieces())
        self.address = endpoint.split(b"data: ")[1].strip().decode()
        await self.post(tool_call(f"{server}__hold", {"text": self.name}))

    async def post(self, message: Message) -> None:
        with RawConnection(self.port) as wire:
            assert (await aside(wire.ask, post(message, path=self.address))).status == 202

    async def give_up(self) -> None:
        self.stream.close()


KINDS: Final[dict[str, type[Held]]] = {
    "notification": Notifying,
    "end of the session": Leaving,
    "closed connection": HangingUp,
    "killed client": Killed,
    "closed stream": Older,
}
MOMENTS: Final = ("at once", "heard", "late", "race", "after")


class Scene:
    """One gateway, its keepers, and someone who has them answer."""

    def __init__(
        self, at: InProcessGateway, keepers: dict[str, Any], releaser: RawHttpClient
    ) -> None:
        self.at = at
        self.keepers: dict[str, HoldingServer] = keepers
        self.draw = random.Random(11)
        self._releaser = releaser
        self._releasing = asyncio.Lock()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._names = count()

    async def give_up_one(self, server: str, kind: str) -> None:
        """One call that is given up at some moment."""
        async with self._room:
            moment = self.draw.choice(MOMENTS)
            name = f"{moment.replace(' ', '-')}-{next(self._names)}"
            held, keeper = KINDS[kind](self.at.port, name), self.keepers[server]
            await held.begin(server)
            if moment == "at once":
                if isinstance(held, Notifying):
                    # Else the gateway might be told before it is asked.
                    await until(lambda: self.at.works_on(name))
            else:
                await until(lambda: name in keeper.all("heard"))
            await self._end(held, moment, server)
            await held.close()

    async def _end(self, held: Held, moment: str, server: str) -> None:
        keeper, name = self.keepers[server], held.name
        if moment == "race":
            await self._together(held.give_up, lambda: self.release(server, name))
        elif moment == "after":
            await self.release(server, name)
            await held.give_up()
        else:
            await held.give_up()
        ending = await held.ending()
        if ending is not None and "error" in ending:
            assert ending["error"]["code"] == CANCELLED, ending
            assert moment != "after" or isinstance(held, Notifying)
        elif ending is not None:
            assert text_of(ending) == name
            assert moment in ("race", "after")
        if moment in ("heard", "late"):
            await until(lambda: name in keeper.all("cancelled"))
        if moment == "late":
            await self.release(server, name)

    async def release(self, server: str, name: str) -> None:
        """Have a server answer a call that it keeps."""
        async with self._releasing:
            answer = await aside(self._releaser.call, f"{server}__release", text=name)
        assert text_of(answer) == name

    async def _together(self, *acts: Callable[[], Awaitable[None]]) -> None:
        await asyncio.gather(*(act() for act in self.draw.sample(acts, len(acts))))


def test_calls_that_are_given_up_leave_nothing_behind(tmp_path: Path) -> None:
    async def scene() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 * AT_ONCE))
        web = {"web-modern": HttpHoldingServer("modern"), "web-legacy": HttpHoldingServer("legacy")}
        pipes = {
            "pipe-modern": StdioHoldingServer("modern", tmp_path / "modern"),
            "pipe-legacy": StdioHoldingServer("legacy", tmp_path / "legacy"),
        }
        async with AsyncExitStack() as stack:
            for each in web.values():
                await stack.enter_async_context(each.web)
            keepers: dict[str, Any] = {**web, **pipes}
            entries = {slug: keeper.entry for slug, keeper in keepers.items()}
            at = await stack.enter_async_context(in_process_gateway(tmp_path, entries))
            releaser = await aside(RawHttpClient, at.port)
            stack.callback(releaser.close)
            for server in keepers:
                assert text_of(await aside(releaser.call, f"{server}__echo", text="hi")) == "hi"
            await until(lambda: at.at_rest)
            before = at.open_calls
            whole = Scene(at, keepers, releaser)
            calls = [(server, kind) for server in keepers for kind in KINDS] * CANCELS
            whole.draw.shuffle(calls)

            await asyncio.gather(*(whole.give_up_one(*each) for each in calls))

            await until(lambda: at.at_rest)
            await until(lambda: at.open_calls == before)  # The gateway asks for lists, too.
            for server, keeper in keepers.items():
                given_up = keeper.all("heard") - keeper.all("answered") - keeper.all("cancelled")
                assert not given_up, f"{server} still works on {given_up}"
            for server in keepers:
                for number in range(CALLS_AFTER):
                    answer = await aside(releaser.call, f"{server}__echo", text=f"{number}")
                    assert text_of(answer) == f"{number}"
            await until(lambda: len(at.ingress.connections) <= 1)
            measured(cancelled=len(calls), calls_after=CALLS_AFTER * len(keepers))

    run_bounded(scene)
    assert check_journal(tmp_path / "state") > 0
