"""What is to be replayed."""

import json
from pathlib import Path

import pytest

from anyport.cli.ending import CommandFailed, WrongUsage
from anyport.cli.options import Given
from anyport.cli.replaying import selection
from anyport.cli.replaying.selection import select
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
    return [each.row.id for each in select(Given(), words).exchanges]


def test_an_id_or_its_first_digits_mean_an_exchange(record: Stage) -> None:
    assert ids(SPAN) == [SPAN]
    assert ids("00f067aa0ba902b7") == [SPAN]
    with pytest.raises(CommandFailed, match="Several begin with 00f067aa"):
        ids("00f067aa")


def test_a_filter_means_all_that_match(record: Stage) -> None:
    assert ids("server:github") == [SPAN]
    assert ids("-server:github") == ["00f067aa0ba902b8"]
    assert len(ids("since:2026-01-01")) == 2


def test_the_recording_is_read_here_wherever_it_is_sent(record: Stage) -> None:
    given = Given(url="http://127.0.0.1:1")
    assert len(select(given, ("server:github",)).exchanges) == 1


def test_handshakes_are_found_beside_what_is_asked_for(record: Stage) -> None:
    found = select(Given(), ("server:github",))
    assert [each.row.server for each in found.handshakes("session:s1", LATER)] == ["docs"]
    assert found.handshakes("session:s1", EARLIER) == []
    assert found.handshakes("session:other", LATER) == []


def test_an_export_means_all_that_is_in_it(record: Stage) -> None:
    record.run("export", "-o", "all.jsonl")
    found = select(Given(), ("all.jsonl",))

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

    found = select(Given(), ("fixtures", "2.json"))
    assert [each.name for each in found.fixtures] == ["1.json", "2.json"]


def test_what_means_nothing_is_told(record: Stage) -> None:
    Path("1.json").write_text(json.dumps(REQUEST))
    Path("bad.json").write_text("{")
    record.run("export", "-o", "all.jsonl")
    for words, told in (
        ((), "say what to replay"),
        (("1.json", "server:x"), "a filter cannot go with files"),
        (("2.json",), "there is no file '2.json'"),
        (("1.json", "all.jsonl"), "cannot be replayed together"),
        (("bad.json",), "bad.json is not JSON"),
        (("nosuchkey:x",), "nosuchkey"),
    ):
        with pytest.raises(WrongUsage, match=told):
            select(Given(), words)
    with pytest.raises(CommandFailed, match="nothing that is recorded matches"):
        select(Given(), ("server:nobody",))


def test_too_much_is_refused(record: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EXCHANGES_MAX", 1)
    with pytest.raises(CommandFailed, match="2 exchanges match; at most 1 are replayed"):
        ids("since:2026-01-01")
