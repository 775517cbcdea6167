"""Many clients of all eras on one server that asks, reports and logs: nothing crosses.

The server is one entry of the configuration, which every client uses at the same time. Half of the
calls make it ask; each question, answer, report and log bears the mark of the client whose call it
belongs to.

In full: a hundred thousand calls, with two hundred clients on any server.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEMO, WAIT_SECONDS, Message
from tests.journeys.http_gateway import serving
from tests.peers.http_driver import HttpDemo
from tests.rig.concurrent_clients import TOKEN, ConcurrentClient, ReceivedMessages, make_clients
from tests.rig.probe import check_journal
from tests.rig.scale import scaled

pytestmark = pytest.mark.slow

CALLS: Final = scaled(0, full=100_000)
"""In all; 0 for as many as are good for every day."""
PEOPLE: Final = 20
"""Tokens; ten clients of one person share one."""
PEOPLE_OF_PIPES: Final = PEOPLE if CALLS else 4
"""Where each client that can be asked has a process of the server to itself."""
TOKENS: Final = {f"person{number}": f"token-{number}-2b7e151628aed2a6" for number in range(PEOPLE)}
CALL_SECONDS_MAX: Final = 5 * WAIT_SECONDS
"""Of two hundred that go on at once; only one that hangs takes as long."""
ASKED: Final = {"elicitation": "user", "sampling": "model", "roots": "roots"}
"""Whom a client can have asked, by what it declares."""
QUESTION: Final = {
    "user": "elicitation/create",
    "model": "sampling/createMessage",
    "roots": "roots/list",
}

ALL: Final = frozenset({True, False})
OWN: Final = frozenset({True})
NONE: Final = frozenset[bool]()
"""Which clients, by whether they can be asked, hear all the logs of their calls: over HTTP they
come with the answer. On a pipe nobody knows whose they are, unless one client has it to itself."""


@contextmanager
def on_a_pipe(*options: str) -> Iterator[Message]:
    """A server on a pipe: a legacy one has a process for each client that it may ask."""
    command, *rest = [*DEMO, *options]
    yield {"command": command, "args": rest}


@contextmanager
def on_the_web(*options: str) -> Iterator[Message]:
    """A server that is one process for all."""
    with HttpDemo("--transport", "streamable", *options) as demo:
        # Everybody connects at once, and the machine may have other work.
        yield {"url": f"http://127.0.0.1:{demo.port}/mcp", "connectSeconds": WAIT_SECONDS}


@pytest.mark.parametrize(
    ("server", "people", "calls", "heard"),
    [
        pytest.param(on_the_web("--legacy-only"), PEOPLE, 2000, ALL, id="legacy-http"),
        pytest.param(on_a_pipe("--legacy-only"), PEOPLE_OF_PIPES, 2000, OWN, id="legacy-stdio"),
        pytest.param(on_the_web("--modern-only"), PEOPLE, 2000, ALL, id="modern-http"),
        pytest.param(on_a_pipe("--modern-only"), PEOPLE, 2000, NONE, id="modern-stdio"),
    ],
)
def test_no_question_answer_report_or_log_reaches_another_client(
    tmp_path: Path, server: Any, people: int, calls: int, heard: frozenset[bool]
) -> None:
    with server as entry, serving(tmp_path, {"one": entry}, gateway={"tokens": TOKENS}) as site:
        port = int(site.netloc.rpartition(":")[2])
        crowd = [
            client
            for token in list(TOKENS.values())[:people]
            for client in make_clients(port, {"Authorization": f"Bearer {token}"})
        ]
        turns = (CALLS or calls) // len(crowd)
        counted = asyncio.run(live(crowd, turns, heard))
    whole = turns * len(crowd)
    assert counted["calls"] == whole
    assert 0.4 * whole < counted["questions"] < 0.6 * whole
    assert counted["reports"] > 1.5 * whole
    assert counted["logs"] > whole or not heard
    # Each time that a client without a session comes to a server without one is a call.
    assert whole <= check_journal(site.state) <= whole + counted["questions"]


async def live(crowd: list[ConcurrentClient], turns: int, heard: frozenset[bool]) -> Counter[str]:
    """Everybody comes, calls again and again while all others do, and goes."""
    counted: Counter[str] = Counter()

    async def work(client: ConcurrentClient) -> None:
        for turn in range(1, turns + 1):
            whom = choice(client, turn)
            async with asyncio.timeout(CALL_SECONDS_MAX):
                account = await client.call("one__consult", turn, whom)
            check(client, turn, whom, account, heard)
            counted["calls"] += 1
            counted["questions"] += len(account.questions)
            counted["reports"] += len(account.told("notifications/progress"))
            counted["logs"] += len(account.told("notifications/message"))

    async with asyncio.TaskGroup() as streams:
        try:
            for client in crowd:
                await client.open(streams)
            async with asyncio.TaskGroup() as group:
                for client in crowd:
                    group.create_task(work(client))
            for client in crowd:
                await client.close()
        finally:
            for client in crowd:
                client.hang_up()
    return counted


def choice(client: ConcurrentClient, turn: int) -> str:
    """Whom a client's call makes the server ask: somebody, in five of eight turns."""
    able = [ASKED[name] for name in ASKED if name in client.capabilities] or list(QUESTION)
    return able[turn % len(able)] if turn % 8 < 5 else "nobody"


def check(
    client: ConcurrentClient,
    turn: int,
    whom: str,
    account: ReceivedMessages,
    heard: frozenset[bool],
) -> None:
    """All that is this client's own has come, and nothing else."""
    able = bool(client.capabilities)
    answer = account.answer
    assert answer["id"] == turn, answer
    if whom != "nobody" and not able:
        assert not account.questions
        assert "error" in answer or answer["result"]["isError"], answer
        return
    assert not answer["result"].get("isError"), answer
    report = json.loads(answer["result"]["content"][0]["text"])
    assert report["about"] == client.text
    words = f"answer: {client.text}"
    assert (words in json.dumps(report["answer"])) is (whom != "nobody"), report
    assert [question["method"] for question in account.questions] == (
        [] if whom == "nobody" else [QUESTION[whom]]
    )
    if whom in ("user", "model"):
        assert client.text in json.dumps(account.questions)
    reports = account.told("notifications/progress")
    assert {each["progressToken"] for each in reports} == {TOKEN}
    assert sorted({each["progress"] for each in reports}) == [1, 2]
    said = {f"before: {client.text}", f"after: {client.text}"}
    if client.revision != "2024-11-05":
        assert {each["message"] for each in reports} == said
    logs = {each["data"] for each in account.told("notifications/message")}
    # Over a connection that others share they come on the side, perhaps in a later turn.
    assert logs == said if able in heard else all(client.mark in each for each in logs)
