"""A call on the beaten track ends exactly as it would have in the ordinary way."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from anyport.gateway.calls.durability import CALLS_REFUSED, not_recorded_fault
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import REVISIONS
from tests.gateway.calls.fast_paths import ERAS, PLAIN, Client, by, plain_result
from tests.gateway.fakes import LEGACY, MODERN, FakeSession, caller
from tests.gateway.scene import Scene
from tests.protocol.fakes import META


@pytest.fixture(
    params=[(c, s) for c in ERAS for s in ERAS],
    ids=lambda pair: "-".join(revision.era.value for revision in pair),
)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    """One for each pair of eras, with a track to travel on."""
    of_client, of_server = request.param
    made = Client(Scene(tmp_path, revision=of_server), by(of_client))
    made.prime()
    return made


def test_the_second_call_of_a_name_takes_the_track(client: Client) -> None:
    client.call({"name": "s__echo", "arguments": {"n": 2}}, 2)
    client.hear(plain_result(client.scene))

    assert client.tracked == 1
    sent = json.loads(client.frames[-1])["params"]
    assert (sent["name"], sent["arguments"]) == ("echo", {"n": 2})
    answer = client.wire.take_one()
    assert answer["id"] == 2
    assert answer["result"]["content"] == []
    assert client.scene.statuses == ["success"]
    assert client.scene.at_rest()
    assert client.open.keys() == {100}


def test_a_changed_catalog_ends_the_track(client: Client) -> None:
    client.scene.server.offer(OfferKind.TOOLS, "echo", "more")
    client.scene.profile.refresh()

    client.call()
    assert client.tracked == 0
    client.hear(plain_result(client.scene))

    client.call(id=2)
    assert client.tracked == 1


def test_a_tool_that_is_gone_is_unknown_even_if_it_was_called_before(client: Client) -> None:
    client.scene.server.offer(OfferKind.TOOLS, "other")
    client.scene.profile.refresh()

    client.call()

    assert client.tracked == 0
    assert "Unknown tool: s__echo" in json.dumps(client.wire.take_one())


def test_a_lost_connection_ends_the_track(client: Client) -> None:
    client.scene.server.connection.end("exit code 1")
    client.scene.server.down = "exit code 1"

    client.call()

    assert client.tracked == 0
    assert "Server 's' is not running: exit code 1" in json.dumps(client.wire.take_one())


def test_another_caller_has_tracks_of_its_own(client: Client) -> None:
    other = by(client.caller.revision)
    client.caller = other

    client.call()

    assert client.tracked == 0


def test_a_server_that_is_lost_is_told_and_noted(client: Client) -> None:
    client.call()
    client.scene.server.connection.end("killed by SIGKILL")

    assert client.tracked == 1
    assert "killed by SIGKILL" in json.dumps(client.wire.take_one())
    assert client.scene.statuses == ["failure"]
    assert client.scene.at_rest()


def test_a_call_that_takes_a_while_leaves_the_track_and_is_noted(client: Client) -> None:
    client.call()
    client.scene.calls.sweep(SLOW_CALL_SECONDS)
    client.scene.calls.sweep(SLOW_CALL_SECONDS + 1)
    assert client.scene.statuses == ["pending"]

    client.hear(plain_result(client.scene))

    assert client.wire.take_one()["result"]["content"] == []
    first, last = client.scene.events
    assert (first["status"], last["status"]) == ("pending", "success")
    assert first["trace_id"] == last["trace_id"]
    assert client.scene.at_rest()


def test_a_call_that_takes_too_long_is_ended_and_the_server_told(client: Client) -> None:
    client.call()
    for second in range(1, 61):
        client.scene.calls.sweep(second)

    assert "Tool execution timeout (60s)" in json.dumps(client.wire.take_one())
    assert client.scene.statuses == ["pending", "timeout"]
    assert json.loads(client.frames[-1])["method"] == "notifications/cancelled"
    assert client.scene.at_rest()


def test_a_cancelled_call_tells_the_server_and_the_record_and_nobody_else(client: Client) -> None:
    client.call()

    client.open[1].cancel(b'"enough"')
    cancelled = json.loads(client.frames[-1])
    client.scene.server.connection.receive(
        b'{"jsonrpc":"2.0","id":%d,"result":{}}' % cancelled["params"]["requestId"]
    )

    assert cancelled["params"]["reason"] == "enough"
    assert client.wire.take() == []
    assert client.scene.statuses == ["cancelled"]
    assert client.scene.at_rest()


def test_a_server_knows_which_exchanges_it_works_on(client: Client) -> None:
    client.call()

    (exchange,) = client.scene.calls.exchanges_at(client.scene.server)

    assert exchange.name == "s__echo"
    assert client.open[1] is exchange
    client.hear(plain_result(client.scene))
    assert client.wire.take_one()["result"]["content"] == []


def test_a_record_that_breaks_keeps_no_answer_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.call()
    monkeypatch.setattr(client.scene.recorder, "record_fast_call", lambda *_: 1 / 0)

    client.hear(plain_result(client.scene))

    assert client.wire.take_one()["result"]["content"] == []
    assert len(client.scene.broken) == 1


@pytest.mark.parametrize(
    "name", [name for name in REVISIONS if REVISIONS[name].missing_content], ids=lambda name: name
)
def test_a_client_that_must_be_told_in_older_words_has_no_track(tmp_path: Path, name: str) -> None:
    client = Client(Scene(tmp_path), caller(FakeSession(), REVISIONS[name]))
    client.prime()

    client.call()

    assert client.tracked == 0


def test_a_transparent_profiles_results_are_told_in_the_servers_words_on_the_track_and_beside_it(
    tmp_path: Path,
) -> None:
    odd = b'"result":{"resultType":"complete","structuredContent":[1],"content":[{"type":"new"}]}'
    call = {"name": "echo", "arguments": {}}
    told = []
    for primed in (True, False):
        scene = Scene(tmp_path, transparent=True, prefix="never")
        client = Client(scene, caller(FakeSession(), REVISIONS["2025-06-18"]))
        if primed:
            client.prime(call)
        client.call(call)
        client.hear(odd)
        told.append(client.wire.take_one()["result"])
        assert client.tracked == primed

    whole = json.loads(b"{%b}" % odd)["result"]
    assert told == [whole, whole]


# The same, whatever is said.

PARAMS = [
    b'{"name":"s__echo","arguments":{"n":1.50,"\\u00e9":"\xc3\xa9"}%b}',
    b'{"name":"s__echo","arguments":{}%b}',
    b'{"name":"s__echo","arguments":null%b}',
    b'{"name":"s__echo","arguments":[{"name":"s__echo"}]%b}',
    b'{"name":"s__echo","arguments":"},\\"_meta\\":{}"%b}',
    b'{"arguments":{"a":1},"name":"s__echo"%b}',
    b'{"name":"s__echo"%b}',
    b'{"name": "s__echo", "arguments": {}%b}',
    b'{"name":"\\u0073__echo","arguments":{}%b}',
    b'{"name":"s__echo","arguments":{},"vendor":1%b}',
    b'{"name":"s__echo","vendor":{"a":1}%b}',
]
MEMBERS = [
    b'"content":[]',
    b'"content":[{"type":"text","text":"\\u00e9 \xc3\xa9"}]',
    b'"content":[{"type":"chart","points":[1]}]',
    b'"content":[{"type":"image","data":""},{ "type" : "text","text":"" }]',
    b'"resultType":"complete"',
    b'"resultType":"input_required"',
    b'"isError":true',
    b'"isError":false',
    b'"structuredContent":{"a":1.0}',
    b'"structuredContent":[1]',
    b'"ttlMs":5',
    b'"cacheScope":"public"',
    b'"_meta":{"k":1}',
    b'"_meta":{}',
    b'"vendor":{"resultType":"x"}',
]
GAPS = [b"", b"", b"", b" ", b"\n  "]


def _name(member: bytes) -> bytes:
    return member.split(b'"')[1]


@st.composite
def results(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(st.sampled_from(MEMBERS), max_size=4, unique_by=_name))
    if draw(st.booleans()) and b"resultType" not in map(_name, members):
        members.insert(0, b'"resultType":"complete"')
    gap = draw(st.sampled_from(GAPS))
    joined = (b"," + gap).join(members)
    return b'"result":{%b%b%b}' % (gap, joined, draw(st.sampled_from(GAPS)))


ANSWERS = results() | st.sampled_from(
    [
        b'"result":[]',
        b'"result":null',
        b'"result":"x"',
        b'"result":{"resultType":"complete","resultType":"input_required","x":1}',
        b'"error":{"code":-7,"message":"no"}',
        b'"error":{"code":-7,"message":"no","data":{"a":1}}',
    ]
)


@given(st.sampled_from(ERAS), st.sampled_from(ERAS), st.sampled_from(PARAMS), ANSWERS)
@settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(MODERN, LEGACY, PARAMS[0], b'"result":{ }')
@example(MODERN, LEGACY, PARAMS[0], b'"result":{"content":[]} ')
@example(MODERN, MODERN, PARAMS[0], b'"result":{"resultType":"complete","content":[] }')
@example(LEGACY, MODERN, PARAMS[0], b'"result":{"resultType":"complete"}')
@example(LEGACY, LEGACY, PARAMS[0], b'"result":{"resultType":"complete","content":[] }')
def test_a_call_on_the_track_and_one_beside_it_are_told_the_same(
    tmp_path: Path, of_client: Any, of_server: Any, params: bytes, answer: bytes
) -> None:
    about = b',"_meta":%b' % json.dumps(META, separators=(",", ":")).encode()
    params = params % (about if of_client is MODERN else b"")
    told, sent, noted = [], [], []
    for primed in (True, False):
        client = Client(Scene(tmp_path, revision=of_server), by(of_client))
        if primed:
            client.prime()
        client.call(params)
        sent.append(json.loads(client.frames[-1])["params"])
        client.hear(answer)
        told.append(client.wire.frames)
        noted.append(client.scene.statuses)

    # White space around a member that had to be taken out may go with it.
    read = [[json.loads(frame, object_pairs_hook=list) for frame in frames] for frames in told]
    assert read[0] == read[1]
    assert sent[0] == sent[1]
    assert noted[0] == noted[1]
    for frame in told[0]:
        json.loads(frame)


# Progress.

OURS = json.dumps(META, separators=(",", ":")).encode()[1:-1]
ABOUTS = {
    LEGACY: [b'{"progressToken":%b}', b'{"k":1,"progressToken":%b}', b'{"progressToken":%b,"k":1}'],
    MODERN: [b"{" + OURS + b',"progressToken":%b}', b'{"progressToken":%b,' + OURS + b"}"],
}
REPORTS = [
    b'{"progressToken":TOKEN,"progress":1,"total":2,"message":"half"}',
    b'{"progressToken":TOKEN,"progress":1.50}',
    b'{"progressToken":TOKEN,"progress":{"label":"an object","percentage":50}}',
    b'{"progressToken": TOKEN, "progress": 2}',
    b'{"progress":3,"progressToken":TOKEN}',
    b'{"progressToken":99,"progress":4}',
]
STALE_REPORTS = [
    b'{"progressToken":TOKEN,"progress":1.5}',
    b'{"progressToken":TOKEN,"progress":0}',
    b'{"progress":1,"progressToken":TOKEN}',
]


@pytest.mark.parametrize("token", [b"7", b'"a b"'])
@pytest.mark.parametrize("of_server", ERAS, ids=lambda revision: f"to-{revision.name}")
@pytest.mark.parametrize(
    ("of_client", "about"),
    [(revision, about) for revision in ERAS for about in ABOUTS[revision]],
    ids=lambda part: part.decode()[:24] if isinstance(part, bytes) else part.name,
)
def test_progress_on_the_track_is_told_as_it_is_beside_it(
    tmp_path: Path, of_client: Any, of_server: Any, about: bytes, token: bytes
) -> None:
    params = b'{"name":"s__echo","arguments":{},"_meta":%b}' % about
    told, sent = [], []
    for primed in (True, False):
        client = Client(Scene(tmp_path, revision=of_server), by(of_client))
        if primed:
            client.prime(params % b"1")
        else:
            client.scene.server.connection.claim_number()
        client.call(params % token)
        frame = json.loads(client.frames[-1])
        assert frame["params"]["_meta"].pop("progressToken") == frame["id"]
        sent.append(client.frames[-1])
        for report in (*REPORTS[:2], *STALE_REPORTS, *REPORTS[2:], *STALE_REPORTS):
            client.progress(report)
        client.hear(plain_result(client.scene))
        told.append(client.wire.frames)
        assert client.tracked == primed

    assert told[0] == told[1]
    assert sent[0] == sent[1]
    assert len(told[0]) == len(REPORTS) + 2 * len(STALE_REPORTS)
    for frame in told[0][:-1]:
        assert json.loads(frame)["params"]["progressToken"] == json.loads(token)


def test_calls_with_and_without_progress_have_tracks_of_their_own(client: Client) -> None:
    about = META if client.caller.revision is MODERN else {}
    params = {**PLAIN, "_meta": {**about, "progressToken": 5}}
    watched = json.dumps(params, separators=(",", ":")).encode()
    client.prime(watched)
    assert client.tracked == 0

    for again in (PLAIN, watched, PLAIN):
        client.call(again)
        client.hear(plain_result(client.scene))

    assert client.tracked == 3


def test_a_token_where_no_client_writes_it_leaves_no_track(client: Client) -> None:
    if client.caller.revision is MODERN:
        return
    odd = b'{"name":"s__echo","arguments":{},"_meta":{"a":1,"progressToken":5,"b":2}}'

    client.prime(odd)
    client.prime(odd)

    assert client.tracked == 0
    assert not [key for key in client.caller.cache if key == ("s__echo", False)]


def test_a_call_on_a_track_waits_for_its_record_if_it_must(client: Client) -> None:
    kept: list[bytes] = []
    sluice = client.scene.relay.durability
    client.call()
    sluice.is_holding = True
    sluice.hold_answer = lambda answer: kept.append(answer.frame)  # type: ignore[method-assign]

    client.hear(plain_result(client.scene))

    assert client.wire.take() == []
    assert json.loads(kept[0])["result"]["content"] == []
    assert 1 not in client.open


def test_no_track_is_taken_while_nothing_can_be_recorded(client: Client) -> None:
    before = client.tracked
    client.scene.relay.durability.refusal = not_recorded_fault(CALLS_REFUSED, "no room")

    client.call()

    assert client.tracked == before
    assert "no room" in json.dumps(client.wire.take_one())
