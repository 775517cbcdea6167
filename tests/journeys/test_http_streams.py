"""The streams of a session: one for each call, one for the rest, taken up again after a cut.

Every test is a statement that gateways have been seen to get wrong.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.harness import read_events
from tests.journeys.clients import KINDS, SessionClient, names
from tests.journeys.http_gateway import HttpAnswer, HttpGateway, serving
from tests.journeys.scripts import Scripted, note, result, rule, said, text, tools

STREAMABLE = ("2025-03-26", "2025-06-18", "2025-11-25")
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


def patient(path: Path) -> Scripted:
    """A server whose call reports progress at once, and ends when another tool is called."""
    progress = note("notifications/progress", '{"progressToken":$token,"progress":1}')
    more = [
        note("notifications/progress", f'{{"progressToken":$token,"progress":{n}}}') for n in (1, 2)
    ]
    release = [result(text("late")).replace("$id", "$call"), result(text("released"))]
    return Scripted(
        path,
        tools("wait", "noisy", "go"),
        rule("tools/call", progress, keep="call", where={"name": "wait"}),
        rule("tools/call", *more, keep="noisy", where={"name": "noisy"}),
        rule("tools/call", *release, where={"name": "go"}),
    )


@pytest.fixture
def slow_site(tmp_path: Path) -> Iterator[HttpGateway]:
    with serving(tmp_path, {"only": patient(tmp_path).command}) as site:
        yield site


def call(session: SessionClient, tool: str) -> HttpAnswer:
    """Start a call that reports progress."""
    params = {"name": f"only__{tool}", "arguments": {}, "_meta": {"progressToken": tool}}
    return session.start("tools/call", params, id=tool)


def cut_after_progress(answer: HttpAnswer) -> str:
    """Hang up as soon as there was progress; the id to go on from."""
    answer.wait_method("notifications/progress")
    answer.close()
    assert answer.last_id is not None
    return answer.last_id


# Resumption


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_cut_does_not_cancel_and_the_answer_waits_for_the_client(
    slow_site: HttpGateway, revision: str
) -> None:
    session = SessionClient(slow_site, revision)
    seen = cut_after_progress(call(session, "wait"))
    assert said(session.call("only__go")) == "released"
    resumed = session.listen(after=seen)
    assert (resumed.status, resumed.kind) == (200, "text/event-stream")
    (answer,) = resumed.rest()
    assert (answer["id"], said(answer)) == ("wait", "late")
    events = read_events(slow_site.state)
    statuses = [e["status"] for e in events if e["event_type"] == "gateway.tool_call"]
    assert "cancelled" not in statuses


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_call_goes_on_where_its_stream_is_taken_up_again(
    slow_site: HttpGateway, revision: str
) -> None:
    session = SessionClient(slow_site, revision)
    resumed = session.listen(after=cut_after_progress(call(session, "wait")))
    assert said(session.call("only__go")) == "released"
    assert [said(answer) for answer in resumed.rest()] == ["late"]


def test_a_stream_can_be_cut_and_taken_up_many_times(slow_site: HttpGateway) -> None:
    session = SessionClient(slow_site)
    seen = cut_after_progress(call(session, "wait"))
    for _ in range(5):
        resumed = session.listen(after=seen)
        assert resumed.status == 200
        resumed.close()
    assert said(session.call("only__go")) == "released"
    for _ in range(2):  # What has been sent can be asked for again, too.
        assert [said(answer) for answer in session.listen(after=seen).rest()] == ["late"]


def test_only_the_events_of_that_stream_come_again(slow_site: HttpGateway) -> None:
    session = SessionClient(slow_site)
    waiting, noisy = call(session, "wait"), call(session, "noisy")
    noisy.wait_method("notifications/progress")
    first = noisy.last_id
    noisy.wait_method("notifications/progress")
    noisy.close()
    seen = cut_after_progress(waiting)
    assert said(session.call("only__go")) == "released"
    assert [message["id"] for message in session.listen(after=seen).rest()] == ["wait"]
    again = session.listen(after=first)
    (other,) = [again.next()]
    assert other["params"] == {"progressToken": "noisy", "progress": 2}


def test_a_call_that_is_cut_before_it_said_anything_can_be_found_again(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = Scripted(
        tmp_path, tools("wait"), rule("tools/call", result(text("late")), until=str(gate))
    )
    with serving(tmp_path, {"only": server.command}) as site:
        session = SessionClient(site, "2025-11-25")
        answer = session.start("tools/call", {"name": "only__wait"}, id="w")
        # This revision's streams begin with an event that says nothing but where they are.
        first = next(answer.events())
        assert first.data == ""
        answer.close()
        gate.touch()
        assert [said(one) for one in session.listen(after=first.id).rest()] == ["late"]


def test_a_stream_of_another_session_is_not_to_be_had(slow_site: HttpGateway) -> None:
    mine, stranger = SessionClient(slow_site), SessionClient(slow_site)
    seen = cut_after_progress(call(mine, "wait"))
    assert said(mine.call("only__go")) == "released"
    theirs = stranger.listen(after=seen)
    assert stranger.delete().status == 200
    assert theirs.rest() == []
    assert [said(one) for one in mine.listen(after=seen).rest()] == ["late"]


# Priming


@pytest.mark.parametrize("revision", STREAMABLE)
def test_only_the_newest_handshake_revision_gets_events_without_a_message(
    slow_site: HttpGateway, revision: str
) -> None:
    session = SessionClient(slow_site, revision)
    streams = [session.listen(), call(session, "wait")]
    assert said(session.call("only__go")) == "released"
    assert session.delete().status == 200
    empty = [[event for event in stream.events() if not event.data] for stream in streams]
    if revision != "2025-11-25":
        assert empty == [[], []]
        return
    for (event,) in empty:
        assert event.id is not None
        assert event.retry is not None


@pytest.mark.parametrize("revision", STREAMABLE)
def test_all_event_ids_of_a_session_differ(slow_site: HttpGateway, revision: str) -> None:
    session = SessionClient(slow_site, revision)
    streams = [call(session, "wait"), call(session, "noisy"), session.listen()]
    assert said(session.call("only__go")) == "released"
    assert session.delete().status == 200
    ids = [event.id for stream in streams for event in stream.events()]
    assert None not in ids
    assert len(set(ids)) == len(ids) >= 4


# What belongs to no call


@pytest.mark.parametrize(("server", "revision"), [*zip(KINDS, cycle(STREAMABLE), strict=False)])
def test_changes_and_updates_come_on_the_standalone_stream(
    site: HttpGateway, server: str, revision: str
) -> None:
    session = SessionClient(site, revision)
    alone = session.listen()
    before = names(session)
    uri = f"{server}+demo://counter"
    assert session.request("resources/subscribe", {"uri": uri})["result"] == {}
    session.call(f"{server}__touch")
    assert alone.wait_method(UPDATED)["params"]["uri"] == uri
    session.call(f"{server}__grow")
    alone.wait_method(CHANGED)
    assert len(names(session)) == len(before) + 1


def test_a_message_goes_to_exactly_one_stream_of_a_session(tmp_path: Path) -> None:
    notes = [note("notifications/resources/updated", {"uri": f"x:{n}"}) for n in range(20)]
    resources = [{"uri": f"x:{n}", "name": str(n)} for n in range(20)]
    server = Scripted(
        tmp_path,
        tools("wait", "stir"),
        rule("resources/list", result({"resources": resources})),
        rule("resources/subscribe", result({})),
        rule(
            "tools/call",
            note("notifications/progress", '{"progressToken":$token,"progress":1}'),
            where={"name": "wait"},
        ),
        rule("tools/call", *notes, result(text("ok")), where={"name": "stir"}),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        session, bystander = SessionClient(site), SessionClient(site)
        streams = [session.listen(), session.listen(), call(session, "wait")]
        quiet = bystander.listen()
        session.request("resources/list")
        for resource in resources:
            session.request("resources/subscribe", {"uri": resource["uri"]})
        assert said(session.call("only__stir")) == "ok"
        assert session.delete().status == 200
        assert bystander.delete().status == 200
        told = [m for stream in streams for m in stream.rest() if m.get("method") == UPDATED]
        told += [m for m in session.seen if m.get("method") == UPDATED]
        assert sorted(m["params"]["uri"] for m in told) == sorted(r["uri"] for r in resources)
        assert quiet.rest() == []


def test_what_is_missed_while_the_standalone_stream_is_cut_comes_later(tmp_path: Path) -> None:
    def updated(n: int) -> str:
        return note(UPDATED, {"uri": "x:r", "n": n})

    server = Scripted(
        tmp_path,
        tools("one", "two"),
        rule("resources/list", result({"resources": [{"uri": "x:r", "name": "r"}]})),
        rule("resources/subscribe", result({})),
        rule("tools/call", updated(1), result(text("ok")), where={"name": "one"}),
        rule("tools/call", result(text("ok")), updated(2), updated(3), where={"name": "two"}),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        session = SessionClient(site)
        alone = session.listen()
        session.request("resources/list")
        session.request("resources/subscribe", {"uri": "x:r"})
        session.call("only__one")
        assert alone.wait_method(UPDATED)["params"]["n"] == 1
        alone.close()
        session.call("only__two")
        again = session.listen(after=alone.last_id)
        assert [again.wait_method(UPDATED)["params"]["n"] for _ in range(2)] == [2, 3]


def test_what_nobody_was_there_for_is_told_when_the_stream_is_opened(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("stir"),
        rule("resources/list", result({"resources": [{"uri": "x:r", "name": "r"}]})),
        rule("resources/subscribe", result({})),
        rule("tools/call", result(text("ok")), note(UPDATED, {"uri": "x:r"})),
        rule("resources/read", result({"contents": []})),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        session = SessionClient(site)
        session.request("resources/list")
        session.request("resources/subscribe", {"uri": "x:r"})
        session.call("only__stir")
        # The server answers in order: with this it has said all of the above.
        session.request("resources/read", {"uri": "x:r"})
        alone = session.listen()
        assert session.delete().status == 200
        told = [m for m in [*session.seen, *alone.rest()] if m.get("method") == UPDATED]
    assert len(told) == 1


def test_a_server_hears_of_the_first_follower_and_of_the_last(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("x"),
        rule("resources/list", result({"resources": [{"uri": "x:r", "name": "r"}]})),
        rule("resources/subscribe", result({})),
        rule("resources/unsubscribe", result({})),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        sessions = [SessionClient(site, revision) for revision in STREAMABLE]
        sessions[0].request("resources/list")
        for session in sessions:
            assert session.request("resources/subscribe", {"uri": "x:r"})["result"] == {}
        assert sessions[0].request("resources/unsubscribe", {"uri": "x:r"})["result"] == {}
        assert sessions[1].delete().status == 200
        assert not server.heard("resources/unsubscribe")
        assert sessions[2].delete().status == 200
        assert server.wait_heard("resources/unsubscribe")["params"] == {"uri": "x:r"}
    assert len(server.heard("resources/subscribe")) == 1
