"""What is recorded of calls: for every pair of eras one row that holds what happened, and with
capture `full` what was said, byte for byte."""

import json

from tests.harness import Message
from tests.journeys.capture_clients import RawExchange, texts
from tests.journeys.capture_pairs import BAD, BROKEN, LOG, PLAIN, TRACE, TRACED, CapturePair, report
from tests.journeys.clients import META


def test_a_call_is_one_row_that_holds_every_byte(pair: CapturePair) -> None:
    talk = pair.front.ask("tools/call", pair.calling("plain"), **TRACED)

    row = pair.book.row("tools/call")
    about = pair.check(row, talk)
    pair.check_trace(row, talk)
    assert (row["event_type"], row["status"]) == ("gateway.tool_call", "success")
    assert (about["tool"], about["public_name"]) == ("plain", f"{pair.back}__plain")
    assert about["params_shape"] == '{"word":s,"times":n}'
    assert about["answer_bytes"] == len(pair.said(PLAIN))
    assert pair.frames(row) == [
        ("request", "client", talk.params),
        ("request", "server", pair.ears.params("tools/call")[0]),
        ("response", "server", pair.said(PLAIN)),
        ("response", "client", talk.answer),
    ]


def test_a_tool_that_fails_and_a_server_that_refuses_are_told_apart(pair: CapturePair) -> None:
    failed = pair.front.ask("tools/call", pair.calling("bad"), **TRACED)
    first = pair.book.row("tools/call")
    pair.check(first, failed, "tool_error")
    pair.check_trace(first, failed)
    assert (first["status"], first.get("error_code")) == ("failure", None)
    assert pair.frames(first)[-2:] == [
        ("response", "server", pair.said(BAD)),
        ("response", "client", failed.answer),
    ]
    pair.book.turn()
    pair.ears.turn()

    refused = pair.front.ask("tools/call", pair.calling("broken"), **TRACED)
    second = pair.book.row("tools/call")
    about = pair.check(second, refused, "server_error")
    pair.check_trace(second, refused)
    assert (second["status"], second["error_code"]) == ("failure", -5)
    assert second["error_message"] == BROKEN["message"]
    error = json.dumps(BROKEN).encode()
    assert about["answer_bytes"] == len(error)
    assert pair.frames(second)[-2:] == [
        ("response", "server", error),
        ("response", "client", refused.answer),
    ]


def test_an_unknown_tool_is_a_fault_of_nobody_behind_the_gateway(pair: CapturePair) -> None:
    talk = pair.front.ask("tools/call", {"name": "nobody__has_it"}, **TRACED)

    row = pair.book.row("tools/call")
    pair.check_client(row, talk, "gateway_error")
    assert row["trace_id"] == TRACE
    assert row["metadata"]["tool"] == "nobody__has_it"
    assert not {"server", "server_revision", "sent_bytes", "server_ms"} & row["metadata"].keys()
    assert pair.frames(row) == [
        ("request", "client", talk.params),
        ("response", "client", talk.answer),
    ]


def test_a_call_that_is_given_up_is_a_row_with_what_it_was_told(pair: CapturePair) -> None:
    talk = pair.front.start("tools/call", pair.calling("mute"), **TRACED, progressToken="p")
    assert next(pair.front.heard(talk))["method"] == "notifications/progress"
    pair.front.cancel(talk)

    row = pair.book.row("tools/call")
    told = RawExchange(talk.id, talk.method, talk.params)  # It was not answered.
    about = pair.check(row, told, "cancelled")
    pair.check_trace(row, told)
    assert row["status"] == "cancelled"
    assert texts(row) == ["server-notification notifications/progress"]
    assert not {"answer_bytes", "result_bytes", "result_hash"} & about.keys()
    assert [frame[:2] for frame in pair.frames(row)] == [
        ("request", "client"),
        ("request", "server"),
        ("server-notification", "server"),
        ("server-notification", "client"),
    ]
    if not pair.front.modern:  # What is not answered has no answer; over HTTP something must be.
        pair.front.ask("ping", {})


def test_a_call_that_takes_too_long_is_a_timeout(pair: CapturePair) -> None:
    calling = pair.calling("mute", f"late-{pair.back}")
    talk = pair.front.ask("tools/call", calling, **TRACED, progressToken=7)

    row = pair.book.row("tools/call")
    pair.check_client(row, talk, "timeout")
    about = row["metadata"]
    assert row["status"] == "timeout"
    assert about["server"] == f"late-{pair.back}"
    assert about["sent_bytes"] == len(pair.late.params("tools/call")[0])
    assert texts(row) == ["server-notification notifications/progress"]
    assert row["duration_ms"] >= 300


def test_progress_is_recorded_in_the_words_of_either_side(pair: CapturePair) -> None:
    talk = pair.front.ask("tools/call", pair.calling("steps"), **TRACED, progressToken="p")

    row = pair.book.row("tools/call")
    pair.check(row, talk)
    assert texts(row) == ["server-notification notifications/progress"] * 3
    sizes = [int(text.split(" ")[3]) for text in row["metadata"]["frames"]]
    (sent,) = pair.ears.params("tools/call")
    token = str(json.loads(sent)["_meta"]["progressToken"])
    said = [report(step).replace("$token", token).encode() for step in (1, 2, 3)]
    assert sizes == [len(each) for each in said]
    assert len(talk.told) == 3
    between = [
        frame
        for theirs, ours in zip(said, talk.told, strict=True)
        for frame in (
            ("server-notification", "server", theirs),
            ("server-notification", "client", ours),
        )
    ]
    assert pair.frames(row) == [
        ("request", "client", talk.params),
        ("request", "server", sent),
        *between,
        ("response", "server", pair.said(PLAIN)),
        ("response", "client", talk.answer),
    ]


def test_a_log_is_recorded_once(pair: CapturePair) -> None:
    level = {"io.modelcontextprotocol/logLevel": "info"} if pair.front.modern else {}
    talk = pair.front.ask("tools/call", pair.calling("chat"), **TRACED, **level)

    row = pair.book.row("tools/call")
    pair.check(row, talk)
    with_call = texts(row).count("server-notification notifications/message")
    apart = pair.book.asides("server-notification")
    assert with_call + len(apart) == 1
    said = [frame for frame in pair.frames(row) if frame[0] == "server-notification"]
    if with_call:
        assert said == [
            ("server-notification", "server", LOG.encode()),
            ("server-notification", "client", talk.told[-1]),
        ]
    else:
        assert (apart[0]["side"], apart[0]["bytes"]) == ("server", len(LOG))


# Calls that were made before.

TIMES = 4
VARYING = frozenset({"span_id", "server_ms", "queue_ms"})


def unasked(pair: CapturePair) -> Message:
    """Who can be asked has a connection to itself; others share one, on which calls repeat."""
    return {f"{META}clientCapabilities": {}} if pair.front.modern else {}


def test_a_call_that_was_made_before_is_recorded_like_the_first(pair: CapturePair) -> None:
    calling, able = pair.calling("plain"), unasked(pair)
    talks = [pair.front.ask("tools/call", calling, **able) for _ in range(TIMES)]

    rows = pair.book.rows()
    for row, talk, sent in zip(rows, talks, pair.ears.params("tools/call"), strict=True):
        about = pair.check(row, talk)
        assert about["sent_bytes"] == len(sent)
        assert pair.frames(row) == [
            ("request", "client", talk.params),
            ("request", "server", sent),
            ("response", "server", pair.said(PLAIN)),
            ("response", "client", talk.answer),
        ]
    first, *others = [
        {name: value for name, value in row["metadata"].items() if name not in VARYING}
        for row in rows
    ]
    assert others == [first] * (TIMES - 1)
    assert len({row["trace_id"] for row in rows}) == TIMES


def test_the_progress_of_a_call_that_was_made_before_is_recorded_like_that_of_the_first(
    pair: CapturePair,
) -> None:
    tokens = ["p", 7, "a longer token", 123456]
    talks = [
        pair.front.ask("tools/call", pair.calling("steps"), **unasked(pair), progressToken=token)
        for token in tokens
    ]

    rows, sent = pair.book.rows(), pair.ears.params("tools/call")
    for row, talk, params in zip(rows, talks, sent, strict=True):
        about = row["metadata"]
        assert about["params_bytes"] == len(talk.params)
        assert about["sent_bytes"] == len(params)
        assert about["result_bytes"] == len(talk.answer)
        assert texts(row) == ["server-notification notifications/progress"] * 3
        token = str(json.loads(params)["_meta"]["progressToken"])
        said = [report(step).replace("$token", token).encode() for step in (1, 2, 3)]
        frames = pair.frames(row)
        assert frames[:2] == [("request", "client", talk.params), ("request", "server", params)]
        assert [frame[2] for frame in frames[2:-2] if frame[1] == "server"] == said
        assert [frame[2] for frame in frames[2:-2] if frame[1] == "client"] == talk.told
    kinds = [row["metadata"].keys() - VARYING for row in rows]
    assert all(each == kinds[0] for each in kinds)


def test_equal_arguments_have_equal_hashes_and_others_have_others(pair: CapturePair) -> None:
    name = f"{pair.back}__plain"
    for arguments in ({"a": 1}, {"a": 2}, {"a": 1}, {"a": 1}, {"a": 2}):
        pair.front.ask("tools/call", {"name": name, "arguments": arguments})

    hashes = [row["metadata"]["params_hash"] for row in pair.book.rows()]
    assert hashes[0] == hashes[2] == hashes[3]
    assert hashes[1] == hashes[4] != hashes[0]
    results = {row["metadata"]["result_hash"] for row in pair.book.rows()}
    assert len(results) == 1


def test_a_secret_in_a_progress_token_is_never_kept(pair: CapturePair) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    for _ in range(TIMES):
        talk = pair.front.ask(
            "tools/call", pair.calling("steps"), **unasked(pair), progressToken=secret
        )
        assert len(talk.told) == 3

    assert len(pair.book.rows()) == TIMES
    for file in pair.book.state.rglob("*.jsonl"):
        assert secret.encode() not in file.read_bytes()
