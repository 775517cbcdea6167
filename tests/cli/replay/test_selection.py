"""What is to be replayed."""

import json
from pathlib import Path

import msgspec
import pytest

from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.options import SharedOptions
from anyport.cli.replay import selection
from anyport.cli.replay.cases import ReplayConversation
from anyport.cli.replay.selection import ReplaySelection, conversations_of, select
from anyport.protocol import meta
from anyport.record.traffic import Detail
from tests.cli.replay.recorded import MOMENT, called, detail, said
from tests.cli.stage import Stage
from tests.record.recorded import SPAN, exchange, payload_line, write_events, write_payloads

EARLIER, LATER = "2026-07-28T11:00:00+00:00", "2026-07-28T13:00:00+00:00"
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def record(stage: Stage) -> Stage:
    other = exchange(span_id="00f067aa0ba902b8", server="docs", method="initialize", tool=None)
    write_events(stage.state, exchange(), other | {"event_type": "gateway.exchange"})
    write_payloads(stage.state, payload_line())
    return stage


def ids(*words: str) -> list[str | None]:
    return [each.row.id for each in select(SharedOptions(), words).exchanges]


def test_an_id_or_its_first_digits_mean_an_exchange(record: Stage) -> None:
    assert ids(SPAN) == [SPAN]
    assert ids("00f067aa0ba902b7") == [SPAN]
    with pytest.raises(CommandFailed, match="Several ids begin with 00f067aa"):
        ids("00f067aa")


def test_a_filter_means_all_that_match(record: Stage) -> None:
    assert ids("server:github") == [SPAN]
    assert ids("-server:github") == ["00f067aa0ba902b8"]
    assert len(ids("since:2026-01-01")) == 2


def test_the_recording_is_read_here_wherever_it_is_sent(record: Stage) -> None:
    options = SharedOptions(url="http://127.0.0.1:1")
    assert len(select(options, ("server:github",)).exchanges) == 1


def test_handshakes_are_found_beside_what_is_asked_for(record: Stage) -> None:
    found = select(SharedOptions(), ("server:github",))
    assert [each.row.server for each in found.handshakes("session:s1", LATER)] == ["docs"]
    assert found.handshakes("session:s1", EARLIER) == []
    assert found.handshakes("session:other", LATER) == []


def test_an_export_means_all_that_is_in_it(record: Stage) -> None:
    record.run("export", "-o", "all.jsonl")
    found = select(SharedOptions(), ("all.jsonl",))

    assert [each.row.id for each in found.exchanges] == [SPAN, "00f067aa0ba902b8"]
    assert [each.row.server for each in found.handshakes("session:s1", LATER)] == ["docs"]
    assert [each.row.server for each in found.handshakes("server:docs", LATER)] == ["docs"]
    assert found.handshakes("server:docs", EARLIER) == []
    assert found.handshakes("server:github", LATER) == []


def test_files_of_requests_are_fixtures(stage: Stage) -> None:
    folder = stage.folder / "fixtures"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps(REQUEST))
    (stage.folder / "2.json").write_text(json.dumps(REQUEST))

    found = select(SharedOptions(), ("fixtures", "2.json"))
    assert [each.name for each in found.fixtures] == ["1.json", "2.json"]


def test_what_means_nothing_is_told(record: Stage) -> None:
    Path("1.json").write_text(json.dumps(REQUEST))
    Path("bad.json").write_text("{")
    record.run("export", "-o", "all.jsonl")
    for words, told in (
        ((), "nothing to replay"),
        (("1.json", "server:x"), "cannot be combined with a filter"),
        (("2.json",), "file not found: 2.json"),
        (("1.json", "all.jsonl"), "cannot be combined"),
        (("bad.json",), "bad.json is not JSON"),
        (("nosuchkey:x",), "nosuchkey"),
    ):
        with pytest.raises(WrongUsage, match=told):
            select(SharedOptions(), words)
    with pytest.raises(CommandFailed, match="no recorded exchange matches"):
        select(SharedOptions(), ("server:nobody",))


def test_too_much_is_refused(record: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EXCHANGES_MAX", 1)
    with pytest.raises(CommandFailed, match="2 exchanges match; at most 1 are replayed"):
        ids("since:2026-01-01")


def greeting(capabilities: object, side: str = "server", **row: object) -> Detail:
    hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {}}
    frames = [said("request", side, hello), said("response", side, {})]
    return detail(*frames, method="initialize", **row)


def own(**row: object) -> Detail:
    """A list that the gateway asked for."""
    frames = [said("request", "server", {}), said("response", "server", {})]
    return detail(*frames, method="tools/list", profile=None, **row)


def names(parts: list[ReplayConversation]) -> list[list[str]]:
    return [[case.name for case in part.cases] for part in parts]


def test_on_the_side_of_clients_a_session_is_a_conversation() -> None:
    rows = [
        detail(*called(side="client"), id=id, client={"session": session})
        for id, session in (("a", "1"), ("b", "2"), ("c", "1"))
    ]
    parts, _ = conversations_of(ReplaySelection(exchanges=rows), "client")
    assert names(parts) == [["a", "c"], ["b"]]


def test_on_the_side_of_servers_a_handshake_begins_one() -> None:
    rows = [greeting({}, id="a"), own(id="b"), greeting({}, id="c"), own(id="d")]
    parts, _ = conversations_of(ReplaySelection(exchanges=rows), "server")

    assert names(parts) == [["a", "b"], ["c", "d"]]
    assert [part.server for part in parts] == ["tiny", "tiny"]


def test_each_server_has_conversations_of_its_own() -> None:
    rows = [detail(*called(), id=id, server=id) for id in ("a", "b")]
    parts, _ = conversations_of(ReplaySelection(exchanges=rows), "server")
    assert [part.server for part in parts] == ["a", "b"]


def test_a_request_that_says_its_revision_belongs_to_no_session() -> None:
    about = {"_meta": {meta.PROTOCOL_VERSION: "2026-07-28"}}
    modern = [said("request", "server", about), said("response", "server", {})]
    rows = [detail(*called(), id="a"), detail(*modern, id="b")]
    parts, _ = conversations_of(ReplaySelection(exchanges=rows), "server")

    assert names(parts) == [["a"], ["b"]]
    assert [part.opening.revision for part in parts] == ["2025-11-25", "2026-07-28"]


def test_a_conversation_is_opened_as_it_was_then() -> None:
    asked: list[tuple[str, str]] = []

    def handshakes(text: str, until: str) -> list[Detail]:
        asked.append((text, until))
        refused = greeting({"sampling": {}}, "client", error={"code": 1, "message": "No"})
        return [greeting({}, "client"), greeting({"roots": {}}, "client"), refused]

    selection = ReplaySelection(exchanges=[detail(*called(side="client"))], handshakes=handshakes)
    [part], _ = conversations_of(selection, "client")

    assert asked == [("session:s1", MOMENT)]
    assert msgspec.json.decode(part.opening.capabilities) == {"roots": {}}
    assert part.opening.revision == "2025-06-18"


def test_where_no_handshake_was_recorded_the_revision_is_known_all_the_same() -> None:
    [part], _ = conversations_of(ReplaySelection(exchanges=[detail(*called())]), "server")
    assert (part.opening.revision, part.opening.capabilities) == ("2025-11-25", b"{}")


def test_what_the_gateway_asked_on_one_of_several_connections_is_left_out() -> None:
    rows = [
        greeting({}, id="a"),
        own(id="b"),
        greeting({"roots": {}}, id="c"),
        own(id="d"),
        detail(*called(), id="e"),
    ]
    parts, unplayable = conversations_of(ReplaySelection(exchanges=rows), "server")

    assert names(parts) == [["a", "b"], ["c", "e"]]
    [left_out] = unplayable
    assert left_out.name == "d"
    assert "several connections" in left_out.reason
