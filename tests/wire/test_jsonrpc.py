"""JSON-RPC 2.0: frames, batches, limits, malformed messages."""

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import (
    ENVELOPE_MEMBERS,
    INBOUND,
    NUMBER_DIGITS_MAX,
    BadFrame,
    Bounds,
    Failure,
    Frame,
    Notification,
    Request,
    Result,
    check_limits,
    decode,
    decode_checked,
    split_batch,
)
from tests.wire.source import SAMPLES, STYLES, written

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
    assert jsonrpc.encode_result(id, b"{}") == b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id


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
def test_a_malformed_error_is_still_a_failure_of_its_request(error: bytes) -> None:
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
        assert json.loads(jsonrpc.encode_failure(frame.id, jsonrpc.encode_error(1, "m")))["id"] in (
            1,
            "a",
            "2.0",
        )
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
    assert jsonrpc.id_at_edge(raw) == id


def test_a_batch_is_told_by_its_first_byte() -> None:
    assert jsonrpc.is_batch(b" \r\n\t[1]")
    assert not jsonrpc.is_batch(b'{"a":[]}')
    assert not jsonrpc.is_batch(b"")


def test_the_messages_of_a_batch_are_read_one_by_one() -> None:
    raw = b'[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","method":"b"}, [], 1]'

    messages = split_batch(raw, 4)

    assert isinstance(messages, list)
    frames = [decode_checked(message) for message in messages]
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
    assert refused(split_batch(raw, 2)).code == code


def test_what_is_written_is_read_back() -> None:
    error = jsonrpc.encode_error(-32602, 'Unknown "tool"', b'{"server":"a"}')

    assert decode(jsonrpc.encode_request(b'"1"', "a/b", b"{}")) == Request(b'"1"', "a/b", b"{}")
    assert decode(jsonrpc.encode_request(b"1", "ping", None)) == Request(b"1", "ping")
    assert decode(jsonrpc.encode_notification("a", b"[]")) == Notification("a", b"[]")
    assert decode(jsonrpc.encode_notification("a", None)) == Notification("a")
    assert decode(jsonrpc.encode_result(b"1", b"{}")) == Result(b"1", b"{}")
    assert decode(jsonrpc.encode_failure(b"1", error)) == Failure(b"1", error)
    assert json.loads(error) == {
        "code": -32602,
        "message": 'Unknown "tool"',
        "data": {"server": "a"},
    }


def test_an_unknown_id_is_null_or_absent() -> None:
    error = jsonrpc.encode_error(-32700, "Parse error")

    assert json.loads(jsonrpc.encode_failure(None, error))["id"] is None
    assert "id" not in json.loads(jsonrpc.encode_failure(None, error, null_id=False))
    assert json.loads(jsonrpc.encode_failure(b"0", error, null_id=False))["id"] == 0


def test_half_a_surrogate_pair_is_refused_with_the_id_of_its_request() -> None:
    frame = jsonrpc.decode(rb'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"\ud83d"}}')

    assert isinstance(frame, BadFrame)
    assert (frame.code, frame.id) == (-32700, b"7")


@pytest.mark.parametrize(
    ("raw", "number"), [(b"7", 7), (b"-7", -1), (b'"7"', -1), (b"9" * 20, -1), (None, -1)]
)
def test_an_id_that_we_did_not_count_is_none_of_ours(raw: bytes | None, number: int) -> None:
    assert jsonrpc.parse_own_id(raw) == number


FRAMES: list[Frame | BadFrame] = [
    Request(b"1", "ping"),
    Notification("notifications/initialized"),
    Result(b"1", b"{}"),
    Failure(None, b'{"code":1,"message":""}'),
    BadFrame(-32600, "Invalid Request"),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_cannot_be_changed(frame: Frame | BadFrame) -> None:
    first = frame.__struct_fields__[0]

    with pytest.raises(AttributeError):
        setattr(frame, first, b"other")


def test_frames_that_say_the_same_are_equal_and_ids_keep_their_type() -> None:
    assert Request(b"1", "ping") == Request(b"1", "ping", None)
    assert Request(b"1", "ping") != Request(b'"1"', "ping")


def test_a_bad_frame_is_answered_unless_it_is_not_answerable() -> None:
    assert BadFrame(-32600, "Invalid Request").answerable
    assert BadFrame(-32600, "Invalid Request").id is None


# Limits.

PARSE_ERROR, INVALID = -32700, -32600
NUMBERS = [
    b"0", b"-0", b"1", b"-1", b"7", b"255", b"256", b"65536", b"2147483647", b"2147483648",
    b"4294967296", b"9007199254740991", b"9007199254740992", b"9007199254740993",
    b"-9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551615", b"18446744073709551616",
    b"1" + b"0" * 40, b"-" + b"9" * 100, b"8" * 1000, b"0.1", b"0.10", b"1.0", b"-0.0", b"1.50",
    b"3.141592653589793238462643383279502884197", b"0.1e1", b"1e3", b"1E3", b"1e+3", b"1e-3",
    b"5e-324", b"1e308", b"1e999", b"1.7976931348623157e309", b"-1e-999",
]  # fmt: skip
NOT_JSON = [
    b"NaN", b"Infinity", b"-Infinity", b"01", b"1.", b".5", b"+1", b"0x1", b"1e", b"-", b"--1",
    b"nul", b"True", b"'a'", b"[1,]", b'{"a"}', b'{"a":1,}', b"/**/1", b"", b'"a\nb"', b'"\0"',
    rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud800x"', rb'"\q"', rb'"\u12"',
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_passes_with_every_digit(number: bytes) -> None:
    assert decode(request_with(params=b'{"n":%b}' % number)) == Request(
        b"1", "tools/call", b'{"n":%b}' % number
    )


@pytest.mark.parametrize("value", NOT_JSON)
def test_what_json_does_not_know_is_a_parse_error(value: bytes) -> None:
    assert refused(decode(request_with(params=b'{"n":%b}' % value))).code == PARSE_ERROR


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_only_plain_utf8_is_read(encoding: str) -> None:
    raw = request_with().decode().encode(encoding)

    assert refused(decode(raw)).code == PARSE_ERROR


@pytest.mark.parametrize(
    "broken", [b"\xff", b"\x80", b"\xc0\xaf", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
def test_invalid_utf8_is_a_parse_error_even_in_a_raw_payload(broken: bytes) -> None:
    bad = refused(decode(request_with(params=b'{"text":"%b"}' % broken)))

    assert bad.code == PARSE_ERROR
    assert "UTF-8" in bad.message


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_128_levels_pass_and_129_do_not(start: bytes, end: bytes) -> None:
    def nested(levels: int) -> bytes:
        return request_with(b"9", b'{"a":%b1%b}' % (start * (levels - 2), end * (levels - 2)))

    assert isinstance(decode(nested(128)), Request)
    bad = refused(decode(nested(129)))
    assert (bad.code, bad.id) == (INVALID, b"9")
    assert "128" in bad.message


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000]
)
def test_a_hundred_thousand_levels_are_refused(raw: bytes) -> None:
    assert refused(decode(raw)).code in (INVALID, PARSE_ERROR)


def test_brackets_and_digits_in_text_are_only_text() -> None:
    text = rb"\"\\" + b"[{" * 5000 + b"7" * 5000
    params = b'{"text":"%b"}' % text

    assert decode(request_with(params=params)) == Request(b"1", "tools/call", params)


def test_commas_in_text_are_no_values() -> None:
    table = b'{"csv":"%b"}' % (b"1," * INBOUND.nodes_max)

    assert isinstance(decode(request_with(params=table)), Request)


@pytest.mark.parametrize("bomb", [b"[" + b"[]," * 200_000 + b"[]]", b"[" + b"0," * 200_000 + b"0]"])
def test_more_values_than_anybody_needs_are_refused(bomb: bytes) -> None:
    bad = refused(decode(request_with(b"3", b'{"a":%b}' % bomb)))

    assert (bad.code, bad.id) == (INVALID, b"3")
    assert "200000 values" in bad.message


def test_a_number_of_a_thousand_digits_passes_and_a_longer_one_does_not() -> None:
    assert isinstance(decode(request_with(params=b'{"n":%b}' % (b"1" * 1000))), Request)

    bad = refused(decode(request_with(b"4", b'{"n":%b}' % (b"1" * 1001))))

    assert (bad.code, bad.id) == (INVALID, b"4")


def test_a_message_over_the_size_is_refused_without_a_look_inside() -> None:
    small = Bounds(bytes_max=100, depth_max=5, nodes_max=10)

    assert isinstance(decode(request_with(params=b'{"a":"%b"}' % (b"x" * 30)), small), Request)
    bad = refused(decode(b"\xff" * 101, small))
    assert bad.code == INVALID
    assert "101 bytes" in bad.message


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 129 + b'"' + rb"\"" * 1_000_000,
        b"[" * 129 + b'"' + rb"\"" * 1_000_000 + b"\\",
        b"[" * 129 + b'"\\' * 1_000_000,
        (b"1" * 1000 + b"x") * 2000,
        b'"' * 2_000_000,
        b"{" * 2_000_000,
        b'{"a":' + b'[{"b":[]}],' * 150_000,
        b" " * 2_000_000,
        b"{" + b" " * 2_000_000,
        b'{"a":1 ,' * 2 + b'"a" :' + b" " * 2_000_000,
    ],
)
def test_no_message_costs_more_than_its_length(raw: bytes) -> None:
    began = time.process_time()

    assert isinstance(decode(raw), BadFrame)

    # Linear takes hundredths of a second; quadratic would take minutes.
    assert time.process_time() - began < 2


# Forms of a message.

IDS: list[Any] = [0, 1, -1, 10**30, "", "a", "é", "\0", '"', 1.5, 1e300, True, None, [], {}]
METHODS: list[Any] = ["tools/call", "ping", "", "é", "a\nb", '"', 7, None, [], {}]
VERSIONS: list[Any] = ["2.0", "2.0", "2.0", "1.0", "", 2.0, 2, None]
STRANGERS = ["jsonRpc", "ID", "Method", "params\0", "PARAMS", "x", "", "éé", "resul", "parems"]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Envelopes with members in any order, some missing, duplicate or misspelt."""
    members = {
        "jsonrpc": st.sampled_from(VERSIONS),
        "id": st.sampled_from(IDS),
        "method": st.sampled_from(METHODS),
        "params": SAMPLES,
        "result": SAMPLES,
        "error": st.just({"code": 1, "message": "m"}) | SAMPLES,
    }
    usual = st.sampled_from(["jsonrpc,id,method,params", "jsonrpc,id,result", "jsonrpc,id,error"])
    names = draw(
        usual.map(lambda names: names.split(","))
        | st.lists(st.sampled_from([*members, *STRANGERS]), max_size=6)
    )
    if draw(st.booleans()):
        names = draw(st.permutations(names))
    named = [(name, draw(members.get(name, SAMPLES))) for name in names]
    style = draw(st.sampled_from(STYLES))
    return written(named, style, Random(draw(st.integers(0, 2**32)))).raw


@given(messages())
@settings(max_examples=400)
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"","params":{}}')
@example(b'{"jsonrpc":"2.0","id":1,"result":null}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"","result":{}}')
@example(b'{"jsonrpc":"2.0","id":"\\ud800","method":"x","params":{}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"\\ud800","params":{}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}')
@example(b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}')
@example(b'{"jsonrpc":"2.0","id":01,"method":"x","params":{}}')
def test_both_ways_read_the_same(raw: bytes) -> None:
    assert decode(raw) == decode_checked(raw)


@given(messages(), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_both_ways_read_the_same_of_a_message_that_was_damaged(raw: bytes, random: Random) -> None:
    at = random.randrange(len(raw))
    damage: list[Callable[[], bytes]] = [
        lambda: raw[:at] + raw[at + 1 :],
        lambda: raw[:at] + bytes([random.randrange(32, 127)]) + raw[at + 1 :],
        lambda: raw[:at] + raw[at : at + 9] + raw[at:],
        lambda: raw[:at] + raw[at + 9 :],
    ]
    damaged = random.choice(damage)()
    if check_limits(damaged, INBOUND) is None:
        assert decode(damaged) == decode_checked(damaged)


@pytest.mark.parametrize("id", [value for value in IDS if type(value) in (int, str)])
def test_plain_messages_are_what_they_say(id: Any) -> None:
    raw_id = json.dumps(id).encode()
    request = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"a":1}}' % raw_id
    result = b'{"jsonrpc":"2.0","id":%b,"result":{"a":1}}' % raw_id

    assert decode(request) == Request(raw_id, "tools/call", b'{"a":1}')
    assert decode(result) == Result(raw_id, b'{"a":1}')


PLAIN = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}'


@pytest.mark.parametrize("name", sorted(ENVELOPE_MEMBERS))
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_second_member_of_any_name_is_refused(name: str, place: str) -> None:
    for value in (b"1", b'"x"', b'"2.0"', b"{}", b"null"):
        extra = b'"%b":%b' % (name.encode(), value)
        raw = (
            b"{" + extra + b"," + PLAIN[1:]
            if place == "first"
            else PLAIN[:-1] + b"," + extra + b"}"
        )
        if b'"%b"' % name.encode() in PLAIN:
            assert isinstance(decode(raw), BadFrame)
        assert decode(raw) == decode_checked(raw)


LONG = b"7" * (NUMBER_DIGITS_MAX + 1)
FITS = b"7" * NUMBER_DIGITS_MAX


def test_a_number_that_is_too_long_is_found_at_any_position() -> None:
    # The search steps by the maximum length of a number; its edges are here and there.
    for offset in (*range(40), *range(960, 1040), 1999, 2000, 2001, 5000):
        around = PLAIN.replace(b'{"a":1}', b'{"a":"%b","b":%%b}' % (b"x" * offset))

        refused = decode(around % LONG)

        assert isinstance(refused, BadFrame), offset
        assert "digits" in refused.message, offset
        assert refused.id == b"1", offset
        for good in (FITS, b"-" + FITS, b'"%b"' % LONG):
            assert isinstance(decode(around % good), Request), offset


@pytest.mark.parametrize("tail", [0, 1, 999, 1000, 1001, 3000])
def test_a_number_that_is_too_long_is_found_whatever_follows_it(tail: int) -> None:
    raw = PLAIN.replace(b'{"a":1}', b'{"b":%b,"a":"%b"}' % (LONG, b"x" * tail))

    assert isinstance(decode(raw), BadFrame)


def test_long_digits_with_a_point_or_an_exponent_are_as_long_as_their_longest_run() -> None:
    for number in (b"1." + LONG, LONG + b".5", LONG + b"e5", b"1e" + LONG):
        assert isinstance(decode(PLAIN.replace(b":1}}", b":%b}}" % number)), BadFrame), number[:9]
