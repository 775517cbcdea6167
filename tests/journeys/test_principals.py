"""What one principal leaves with a server, no other finds there."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.http_gateway import HttpGateway, serving
from tests.pairwise import pairwise
from tests.rig.raw_http_client import RawConnection, RawHttpClient, modern, request, tool_call

KEEPING: Final = str(Path(__file__).with_name("stateful_server.py"))
ADDING: Final = str(Path(__file__).with_name("changing_lists_server.py"))
TOKENS: Final = {"ann": "ann-6f1b9c0d2e7a8653", "bob": "bob-90c1d2e3f4a5b697"}
ERAS: Final = ("legacy", "modern", "both")
KINDS: Final = ("session", "askable", "modern")
"""How a client is asked."""
SERVERS: Final[Message] = {era: [sys.executable, KEEPING, era] for era in ERAS} | {
    f"{era}-for-all": {"command": sys.executable, "args": [KEEPING, era], "scope": "shared"}
    for era in ERAS
}
SERVERS.update({f"adding-{era}": [sys.executable, "-I", "-S", ADDING, era] for era in ERAS})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    settings = {"tokens": TOKENS, "listSeconds": 30}
    with serving(tmp_path_factory.mktemp("principals"), SERVERS, gateway=settings) as there:
        yield there


class Somebody:
    """A client of one principal."""

    def __init__(self, site: HttpGateway, name: str, kind: str) -> None:
        self.port = int(site.netloc.rpartition(":")[2])
        self.fields = {"Authorization": f"Bearer {TOKENS[name]}"}
        self.session: RawHttpClient | None = None
        if kind != "modern":
            able: Message = {"elicitation": {}} if kind == "askable" else {}
            self.session = RawHttpClient(self.port, self.fields, **able)

    def __enter__(self) -> "Somebody":
        return self

    def __exit__(self, *_: object) -> None:
        if self.session is not None:
            self.session.close()

    def ask(self, message: Message, **fields: str) -> Any:
        if self.session is not None:
            message = {**message, "id": next(self.session.ids)}
            return self.session.send(message).messages[-1]
        with RawConnection(self.port) as wire:
            return wire.ask(modern(message, {**self.fields, **fields})).message

    def call(self, name: str, **arguments: Any) -> Any:
        answer = self.ask(tool_call(name, arguments))
        return json.loads(answer["result"]["content"][0]["text"])

    def read(self, server: str) -> Any:
        uri = f"{server}+kept:all"
        answer = self.ask(request("resources/read", {"uri": uri}))
        return json.loads(answer["result"]["contents"][0]["text"])


@pytest.mark.parametrize(("server", "first", "second"), pairwise(ERAS, KINDS, KINDS))
def test_what_one_principal_keeps_with_a_server_another_does_not_see(
    site: HttpGateway, server: str, first: str, second: str
) -> None:
    secret = f"{server} {first} {second}"
    with Somebody(site, "ann", first) as ann, Somebody(site, "bob", second) as bob:
        told = ann.call(f"{server}__keep", text=secret)
        assert secret in told["kept"]
        assert ann.read(server)  # A modern server calls this public, and lets it be kept.
        theirs = bob.call(f"{server}__tell")
        assert theirs["pid"] != told["pid"]
        assert secret not in theirs["kept"]
        assert secret not in bob.read(server)


@pytest.mark.parametrize("server", ERAS)
def test_the_operator_can_have_a_server_shared(site: HttpGateway, server: str) -> None:
    with Somebody(site, "ann", "modern") as ann, Somebody(site, "bob", "modern") as bob:
        told = ann.call(f"{server}-for-all__keep", text="for all")
        assert bob.call(f"{server}-for-all__tell") == told


@pytest.mark.parametrize("server", ERAS)
def test_clients_of_one_principal_share_what_it_has_with_a_server(
    site: HttpGateway, server: str
) -> None:
    with Somebody(site, "ann", "modern") as one, Somebody(site, "ann", "modern") as other:
        told = one.call(f"{server}__keep", text="mine")
        assert other.call(f"{server}__tell") == told


@pytest.mark.parametrize("server", ERAS)
def test_a_change_is_told_to_the_principal_whose_process_tells_it(
    site: HttpGateway, server: str
) -> None:
    uri = f"{server}+kept:all"
    with Somebody(site, "ann", "session") as ann, Somebody(site, "bob", "session") as bob:
        for each in (ann, bob):
            each.call(f"{server}__tell")
            assert "result" in each.ask(request("resources/subscribe", {"uri": uri}))
        for each in (ann, bob):
            assert each.session is not None
            with closing(each.session.open_stream()) as wire:
                pid = each.call(f"{server}__keep", text="news")["pid"]
                updated = next(wire.events())
                assert updated["method"] == "notifications/resources/updated"
                assert updated["params"]["_meta"]["pid"] == pid


def listed(who: Somebody, server: str) -> list[str]:
    tools = who.ask(request("tools/list", {}))["result"]["tools"]
    return [tool["name"] for tool in tools if tool["name"].startswith(f"adding-{server}__")]


@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_server_adds_for_one_principal_is_for_that_one_alone(
    site: HttpGateway, server: str, kind: str
) -> None:
    name, add = f"adding-{server}__{kind}", f"adding-{server}__add"
    with Somebody(site, "ann", kind) as ann, Somebody(site, "bob", kind) as bob:
        assert listed(bob, server) == [add]
        arguments = {"kind": "tools", "name": kind, "tell": True}
        assert "result" in ann.ask(tool_call(add, arguments))

        assert "result" in ann.ask(tool_call(name, {})), "at once"
        assert name in listed(ann, server)
        assert "error" in bob.ask(tool_call(name, {}))
        assert listed(bob, server) == [add]
