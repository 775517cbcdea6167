"""JSON-RPC 2.0 to the letter: what is a frame, what is not, and what is told to whom."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyport.wire import codec
from anyport.wire.codec import decode, decode_batch
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result

PARSE_ERROR, INVALID = -32700, -32600
LEGAL_IDS = [
    b"1", b"0", b"-0", b"-7", b"9007199254740993", b"9223372036854775808", b"18446744073709551616",
    b"1" + b"0" * 40, b'""', b'"1"', b'"' + b"x" * 10_000 + b'"', rb'"\u0041\n\""', '"é"'.encode(),
]  # fmt: skip
MALFORMED_ERRORS = [
    b"null", b'"no"', b"[]", b"{}", b'{"code":1}', b'{"message":"no"}',
    b'{"code":1.5,"message":"no"}', b'{"code":"1","message":"no"}', b'{"code":1,"message":2}',
]  # fmt: skip
ILLEGAL_IDS = [b"1.5", b"1.0", b"1e3", b"true", b"false", b"null", b"{}", b"[]", b'{"id":1}']


def request_with(id: bytes = b"1", params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (id, params)


def refused(frame: object) -> BadFrame:
    assert isinstance(frame, BadFrame), frame
    return frame


@pytest.mark.parametrize("id", LEGAL_IDS)
def test_a_legal_id_comes_back_in_type_and_text(id: bytes) -> None:
    frame = decode(request_with(id))

    assert frame == Request(id, "tools/call", b"{}")
    assert codec.result(id, b"{}") == b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id


@pytest.mark.parametrize("id", ILLEGAL_IDS)
def test_a_request_with_an_illegal_id_is_refused_and_never_taken_for_a_notification(
    id: bytes,
) -> None:
    bad = refused(decode(request_with(id)))

    assert (bad.code, bad.id, bad.answerable) == (INVALID, None, True)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","meth\\u006fd":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","PARAMS":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method\\u0000":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","ID\\u0000x":2}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}'.encode(),
        '{"j\u017fonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}'.encode(),
    ],
)
def test_a_second_or_disguised_envelope_member_is_refused(raw: bytes) -> None:
    assert refused(decode(raw)).code == INVALID


def test_the_refusal_of_a_disguised_member_carries_the_id() -> None:
    assert refused(decode(b'{"id":5,"jsonrpc":"2.0","method":"a","Params":{}}')).id == b"5"
    assert refused(decode(b'{"jsonrpc":"2.0","id":5,"method":"a","method":"b"}')).id == b"5"


def test_strange_members_and_any_order_are_tolerated() -> None:
    raw = b'{"params":{},"method":"ping","vendor":{"a":[]},"key\\u212a":0,"id":1,"jsonrpc":"2.0"}'

    assert decode(raw) == Request(b"1", "ping", b"{}")


def test_white_space_around_everything_changes_nothing() -> None:
    raw = b' {\n"jsonrpc" : "2.0" ,\t"id" : 1 , "method" : "ping" , "params" : { "a" : 1 } }\r\n'

    assert decode(raw) == Request(b"1", "ping", b'{ "a" : 1 }')


def test_a_method_spelt_with_escapes_is_the_method_it_spells() -> None:
    assert decode(rb'{"jsonrpc":"2.0","id":1,"method":"tools\/list"}') == Request(
        b"1", "tools/list"
    )


@pytest.mark.parametrize(
    ("member", "params"),
    [
        (b"", None),
        (b',"params":null', None),
        (b',"params":{}', b"{}"),
        (b',"params":[1,2]', b"[1,2]"),
        (b',"params":{"z":1,"a":2}', b'{"z":1,"a":2}'),
    ],
)
def test_params_are_absent_or_kept_as_they_came(member: bytes, params: bytes | None) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"%b}' % member
    notification = b'{"jsonrpc":"2.0","method":"ping"%b}' % member

    assert decode(request) == Request(b"1", "ping", params)
    assert decode(notification) == Notification("ping", params)


@pytest.mark.parametrize("params", [b"1", b'"a"', b"true", b"-1"])
def test_params_that_are_no_structure_are_refused(params: bytes) -> None:
    bad = refused(decode(request_with(b"7", params)))

    assert (bad.code, bad.id) == (INVALID, b"7")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"method":"ping"}',
        b'{"jsonrpc":"1.0","method":"ping"}',
        b'{"jsonrpc":2.0,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"ping","params":1}',
        b'{"jsonrpc":"2.0","method":"ping","params":"a"}',
    ],
)
def test_a_broken_notification_is_not_answered(raw: bytes) -> None:
    assert not refused(decode(raw)).answerable


@pytest.mark.parametrize(
    ("raw", "id"),
    [
        (b'{"id":1,"method":"ping"}', b"1"),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', b"1"),
        (b'{"jsonrpc":"2.0","method":7}', None),
        (b'{"jsonrpc":"2.0","id":"a"}', b'"a"'),
        (b"{}", None),
        (b"1", None),
        (b'"ping"', None),
        (b"null", None),
        (b"[]", None),
    ],
)
def test_what_is_json_but_not_json_rpc_is_an_invalid_request(raw: bytes, id: bytes | None) -> None:
    bad = refused(decode(raw))

    assert (bad.code, bad.id, bad.answerable) == (INVALID, id, True)


def test_a_result_and_an_error_are_endings_with_raw_payloads() -> None:
    error = b'{"code":-32000,"message":"no","data":[1.0]}'

    assert decode(b'{"jsonrpc":"2.0","id":"a","result":{"n":1.0}}') == Result(b'"a"', b'{"n":1.0}')
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error) == Failure(b"1", error)
    assert decode(b'{"jsonrpc":"2.0","error":%b}' % error) == Failure(None, error)
    assert decode(b'{"jsonrpc":"2.0","id":null,"error":%b}' % error) == Failure(None, error)


def test_a_null_beside_the_other_ending_counts_as_absent() -> None:
    error = b'{"code":1,"message":"no"}'

    assert decode(b'{"id":1,"result":{},"error":null}') == Result(b"1", b"{}")
    assert decode(b'{"id":1,"result":null,"error":%b}' % error) == Failure(b"1", error)
    assert decode(b'{"id":1,"result":null,"error":null}') == Result(b"1", b"null")
    assert decode(b'{"id":1,"result":null}') == Result(b"1", b"null")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
    ],
)
def test_a_broken_answer_is_not_answered(raw: bytes) -> None:
    assert not refused(decode(raw)).answerable


@pytest.mark.parametrize("error", MALFORMED_ERRORS)
def test_a_malformed_error_is_still_somebodys_failure(error: bytes) -> None:
    frame = decode(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error)

    assert isinstance(frame, Failure)
    assert frame.id == b"1"
    assert json.loads(frame.error)["code"] == -32603


@given(st.binary(max_size=60) | st.text('{}[]":,\\1ae.- \n', max_size=60).map(str.encode))
@example(b'{"a":' * 3000)
@settings(max_examples=150)
def test_any_bytes_are_a_frame_or_a_refusal(raw: bytes) -> None:
    frame = decode(raw)

    assert isinstance(frame, Request | Notification | Result | Failure | BadFrame)
    if not isinstance(frame, BadFrame):
        json.loads(raw)


MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "Id", "x"])
VALUES = st.sampled_from(
    ['"2.0"', "1", '"a"', "null", "{}", "[]", "1.5", "true", '{"code":1,"message":"m"}']
)


@given(st.lists(st.tuples(MEMBERS, VALUES), max_size=6))
@settings(max_examples=150)
def test_any_envelope_is_one_thing_and_its_answer_can_be_written(
    named: list[tuple[str, str]],
) -> None:
    raw = "{" + ",".join(f'"{name}":{value}' for name, value in named) + "}"
    names = [name for name, _ in named]

    frame = decode(raw.encode())

    if len(set(names)) < len(names) or "Id" in names:
        assert isinstance(frame, BadFrame)
    if isinstance(frame, Request):
        assert "id" in names
        assert json.loads(codec.failure(frame.id, codec.error(1, "m")))["id"] in (1, "a", "2.0")
    if isinstance(frame, Notification):
        assert "id" not in names


@pytest.mark.parametrize(
    ("raw", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":', b"5"),
        (b' { "id" : "a\\"b" , "method":', b'"a\\"b"'),
        (b'...,"jsonrpc":"2.0","id":7}\n', b"7"),
        (b'...,"id":-7 } ', b"-7"),
        (b'...,"arguments":{"x":1,"id":7}}', None),
        (b'{"method":"a","id":5,"params":', None),
        (b'{"id":007,"method":', None),
        (b'{"id":"\\q","method":', None),
        (b'{"id":"\xff","method":', None),
        (b'{"id":"a\x01","method":', None),
        (b'{"id":null,"method":', None),
        (b"", None),
    ],
)
def test_the_id_of_an_unread_message_is_found_only_where_it_is_sure(
    raw: bytes, id: bytes | None
) -> None:
    assert codec.id_at_edge(raw) == id


def test_a_batch_is_told_by_its_first_byte() -> None:
    assert codec.is_batch(b" \r\n\t[1]")
    assert not codec.is_batch(b'{"a":[]}')
    assert not codec.is_batch(b"")


def test_the_messages_of_a_batch_are_read_one_by_one() -> None:
    raw = b'[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","method":"b"}, [], 1]'

    frames = decode_batch(raw, 4)

    assert isinstance(frames, list)
    assert frames[:2] == [Request(b"1", "a"), Notification("b")]
    assert [refused(frame).code for frame in frames[2:]] == [INVALID, INVALID]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"[]", INVALID),
        (b" [ ] ", INVALID),
        (b"[1,2,3]", INVALID),
        (b"[1", PARSE_ERROR),
        (b'["\xff"]', PARSE_ERROR),
        (b"[" * 1000, INVALID),
    ],
)
def test_what_is_no_batch_as_a_whole_is_refused_once(raw: bytes, code: int) -> None:
    assert refused(decode_batch(raw, 2)).code == code


def test_what_is_written_is_read_back() -> None:
    error = codec.error(-32602, 'Unknown "tool"', b'{"server":"a"}')

    assert decode(codec.request(b'"1"', "a/b", b"{}")) == Request(b'"1"', "a/b", b"{}")
    assert decode(codec.request(b"1", "ping", None)) == Request(b"1", "ping")
    assert decode(codec.notification("a", b"[]")) == Notification("a", b"[]")
    assert decode(codec.notification("a", None)) == Notification("a")
    assert decode(codec.result(b"1", b"{}")) == Result(b"1", b"{}")
    assert decode(codec.failure(b"1", error)) == Failure(b"1", error)
    assert json.loads(error) == {
        "code": -32602,
        "message": 'Unknown "tool"',
        "data": {"server": "a"},
    }


def test_an_unknown_id_is_null_or_absent() -> None:
    error = codec.error(-32700, "Parse error")

    assert json.loads(codec.failure(None, error))["id"] is None
    assert "id" not in json.loads(codec.failure(None, error, null_id=False))
    assert json.loads(codec.failure(b"0", error, null_id=False))["id"] == 0


def test_half_a_surrogate_pair_is_refused_with_the_id_of_its_request() -> None:
    frame = codec.decode(rb'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"\ud83d"}}')

    assert isinstance(frame, BadFrame)
    assert (frame.code, frame.id) == (-32700, b"7")


@pytest.mark.parametrize(
    ("raw", "number"), [(b"7", 7), (b"-7", -1), (b'"7"', -1), (b"9" * 20, -1), (None, -1)]
)
def test_an_id_that_we_did_not_count_is_none_of_ours(raw: bytes | None, number: int) -> None:
    assert codec.own_number(raw) == number
