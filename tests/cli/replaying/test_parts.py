"""Recorded exchanges put together into conversations."""

import msgspec

from anyport.cli.replaying.case import Part
from anyport.cli.replaying.parts import parts_of
from anyport.cli.replaying.selection import Selection
from anyport.protocol import meta
from anyport.record.detail import Detail
from tests.cli.replaying.recorded import MOMENT, called, detail, said


def greeting(capabilities: object, side: str = "server", **row: object) -> Detail:
    hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {}}
    frames = [said("request", side, hello), said("response", side, {})]
    return detail(*frames, method="initialize", **row)


def own(**row: object) -> Detail:
    """A list that the gateway asked for."""
    frames = [said("request", "server", {}), said("response", "server", {})]
    return detail(*frames, method="tools/list", profile=None, **row)


def names(parts: list[Part]) -> list[list[str]]:
    return [[case.name for case in part.cases] for part in parts]


def test_on_the_side_of_clients_a_session_is_a_conversation() -> None:
    rows = [
        detail(*called(side="client"), id=id, client={"session": session})
        for id, session in (("a", "1"), ("b", "2"), ("c", "1"))
    ]
    parts, _ = parts_of(Selection(exchanges=rows), "client")
    assert names(parts) == [["a", "c"], ["b"]]


def test_on_the_side_of_servers_a_handshake_begins_one() -> None:
    rows = [greeting({}, id="a"), own(id="b"), greeting({}, id="c"), own(id="d")]
    parts, _ = parts_of(Selection(exchanges=rows), "server")

    assert names(parts) == [["a", "b"], ["c", "d"]]
    assert [part.server for part in parts] == ["tiny", "tiny"]


def test_each_server_has_conversations_of_its_own() -> None:
    rows = [detail(*called(), id=id, server=id) for id in ("a", "b")]
    parts, _ = parts_of(Selection(exchanges=rows), "server")
    assert [part.server for part in parts] == ["a", "b"]


def test_a_request_that_says_its_revision_belongs_to_no_session() -> None:
    about = {"_meta": {meta.PROTOCOL_VERSION: "2026-07-28"}}
    modern = [said("request", "server", about), said("response", "server", {})]
    rows = [detail(*called(), id="a"), detail(*modern, id="b")]
    parts, _ = parts_of(Selection(exchanges=rows), "server")

    assert names(parts) == [["a"], ["b"]]
    assert [part.opening.revision for part in parts] == ["2025-11-25", "2026-07-28"]


def test_a_conversation_is_opened_as_it_was_then() -> None:
    asked: list[tuple[str, str]] = []

    def handshakes(text: str, until: str) -> list[Detail]:
        asked.append((text, until))
        refused = greeting({"sampling": {}}, "client", error={"code": 1, "message": "No"})
        return [greeting({}, "client"), greeting({"roots": {}}, "client"), refused]

    selection = Selection(exchanges=[detail(*called(side="client"))], handshakes=handshakes)
    [part], _ = parts_of(selection, "client")

    assert asked == [("session:s1", MOMENT)]
    assert msgspec.json.decode(part.opening.capabilities) == {"roots": {}}
    assert part.opening.revision == "2025-06-18"


def test_where_no_handshake_was_recorded_the_revision_is_known_all_the_same() -> None:
    [part], _ = parts_of(Selection(exchanges=[detail(*called())]), "server")
    assert (part.opening.revision, part.opening.capabilities) == ("2025-11-25", b"{}")


def test_what_the_gateway_asked_on_one_of_several_connections_is_left_out() -> None:
    rows = [
        greeting({}, id="a"),
        own(id="b"),
        greeting({"roots": {}}, id="c"),
        own(id="d"),
        detail(*called(), id="e"),
    ]
    parts, unplayable = parts_of(Selection(exchanges=rows), "server")

    assert names(parts) == [["a", "b"], ["c", "e"]]
    [left_out] = unplayable
    assert left_out.name == "d"
    assert "several connections" in left_out.reason
