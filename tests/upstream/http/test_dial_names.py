"""Names are looked up once for all who ask at the same time, and never on the loop."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from anyport.upstream.http.dial import is_numeric, resolve
from tests.upstream.fakes import DEADLINE_SECONDS, run, until


class Resolver:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = threading.Event()

    def __call__(self, host: str, port: int, **_: object) -> list[Any]:
        self.asked.append(host)
        assert self.answer.wait(DEADLINE_SECONDS)
        if host.startswith("nowhere"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if host.startswith("nonsense"):
            raise UnicodeError("label too long")
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_is_not_looked_up(resolver: Resolver, host: str) -> None:
    async def scene() -> None:
        assert await resolve(host, 80) == [(host, 80)]
        assert resolver.asked == []

    run(scene)


def test_a_name_is_not_an_address() -> None:
    assert not is_numeric("localhost")
    assert not is_numeric("127.0.0.1.example.com")


def test_all_addresses_of_a_name_are_found(resolver: Resolver) -> None:
    async def scene() -> None:
        resolver.answer.set()
        assert await resolve("a.test", 80) == [("::1", 80), ("127.0.0.1", 80)]

    run(scene)


@pytest.mark.parametrize("host", ["nowhere.test", "nonsense.test"])
def test_a_name_that_nobody_knows_is_a_fault_each_time_it_is_asked_for(
    resolver: Resolver, host: str
) -> None:
    async def scene() -> None:
        resolver.answer.set()
        for times in (1, 2):
            with pytest.raises(socket.gaierror):
                await resolve(host, 80)
            assert len(resolver.asked) == times

    run(scene)


def test_who_asks_meanwhile_waits_with_the_others_and_may_leave(resolver: Resolver) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        asking = [loop.create_task(resolve("b.test", 80)) for _ in range(5)]
        await until(lambda: bool(resolver.asked))
        asking[0].cancel()
        await until(asking[0].done)
        late = loop.create_task(resolve("b.test", 80))
        await asyncio.sleep(0)

        resolver.answer.set()

        for each in (*asking[1:], late):
            assert len(await each) == 2
        assert asking[0].cancelled()
        assert resolver.asked == ["b.test"]

    run(scene)


def test_one_name_does_not_wait_for_another(resolver: Resolver) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        names = [f"{number}.test" for number in range(40)]
        asking = [loop.create_task(resolve(name, 80)) for name in names]

        await until(lambda: sorted(resolver.asked) == sorted(names))

        resolver.answer.set()
        for each in asking:
            await each

    run(scene)
