"""No two principals share a process or a legacy server, whatever they speak, at the same time."""

import json
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.http_gateway import serving
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    ScriptedHttpServer,
    legacy,
    tool,
)
from tests.rig.raw_http_client import RawConnection, RawHttpClient, modern, tool_call
from tests.rig.scale import measured, scaled

pytestmark = pytest.mark.slow

PRINCIPALS: Final = scaled(4, full=16)
VISITS: Final = scaled(6, full=100)
"""Of each; all principals come at the same time."""
KINDS: Final = ("session", "askable", "modern")
KEEPING: Final = str(Path(__file__).parents[1] / "journeys" / "stateful_server.py")
COMMANDS: Final = {era: [sys.executable, KEEPING, era] for era in ("legacy", "modern", "both")}


class Keeper:
    """A legacy server behind a URL that keeps what it is told in a session."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, list[str]] = defaultdict(list)
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._sound = legacy(self._call, tool("keep"), tool("tell"))

    def __call__(self, heard: ReceivedRequest, back: Reply) -> None:
        if heard.method != "initialize":
            self._sound(heard, back)
            return
        with self._lock:
            session = f"session-{next(self._numbers)}"
        told = {
            "protocolVersion": heard.message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "keeper", "version": "1"},
        }
        back.result(heard, told, Mcp_Session_Id=session)

    def _call(self, heard: ReceivedRequest, back: Reply) -> None:
        params, session = heard.message["params"], heard.fields["mcp-session-id"]
        with self._lock:
            if params["name"] == "keep":
                self.kept[session].append(params["arguments"]["text"])
            said = json.dumps({"kept": self.kept[session], "pid": session})
        back.result(heard, {"content": [{"type": "text", "text": said}]})


class Principal:
    """Somebody with a token, who comes again and again as another kind of client."""

    def __init__(self, port: int, name: str, token: str, servers: Iterable[str]) -> None:
        self.port = port
        self.name = name
        self.fields = {"Authorization": f"Bearer {token}"}
        self.servers = tuple(servers)
        self.chance = random.Random(name)
        self.met: defaultdict[str, set[Any]] = defaultdict(set)
        """By server, its processes or sessions."""
        self.foreign: list[str] = []
        """What it found of others."""

    def come(self) -> None:
        for number in range(VISITS):
            # Each server and each kind at least once, then as it happens.
            server = self.servers[number % len(self.servers)]
            kind = self.chance.choice(KINDS)
            mine = f"{self.name}: {number}"
            if kind == "modern":
                self._look(server, self._ask_modern, mine)
                continue
            able: Message = {"elicitation": {}} if kind == "askable" else {}
            with closing(RawHttpClient(self.port, self.fields, **able)) as visitor:
                self._look(server, lambda message, of=visitor: of.send(message).message, mine)
                visitor.leave()

    def _look(self, server: str, ask: Any, mine: str) -> None:
        for message in (tool_call(f"{server}__keep", {"text": mine}), tool_call(f"{server}__tell")):
            answer = ask(message)
            assert "result" in answer, answer
            told = json.loads(answer["result"]["content"][0]["text"])
            self.met[server].add(told["pid"])
            self.foreign += [text for text in told["kept"] if not text.startswith(f"{self.name}:")]
            assert mine in told["kept"]

    def _ask_modern(self, message: Message) -> Message:
        with RawConnection(self.port) as wire:
            return wire.ask(modern(message, self.fields)).message


def test_no_two_principals_ever_share_a_process_or_a_legacy_server(tmp_path: Path) -> None:
    """As the configuration is without a word about it: no `scope` is set."""
    tokens = {
        f"person-{number}": f"token-{number}-6f1b9c0d2e7a8653" for number in range(PRINCIPALS)
    }
    keeper = Keeper()
    with ScriptedHttpServer(keeper) as web:
        servers = {**COMMANDS, "url": {"url": web.url}}
        settings = {"tokens": tokens, "listSeconds": 30}
        with serving(tmp_path, servers, gateway=settings) as site:
            port = int(site.netloc.rpartition(":")[2])
            people = [Principal(port, name, tokens[name], servers) for name in tokens]
            with ThreadPoolExecutor(PRINCIPALS) as pool:
                for coming in [pool.submit(each.come) for each in people]:
                    coming.result()

    met: defaultdict[Any, set[str]] = defaultdict(set)
    for each in people:
        assert not each.foreign
        for server, theirs in each.met.items():
            for one in theirs:
                met[server, one].add(each.name)
    assert not {one: who for one, who in met.items() if len(who) > 1}
    assert {server for server, _ in met} == set(servers)
    assert len(keeper.kept) >= PRINCIPALS
    measured(principals=PRINCIPALS, visits=PRINCIPALS * VISITS, at_servers=len(met), shared=0)
