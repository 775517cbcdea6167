"""Parsed requests, and plain calls for the fast path."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyport.protocol import meta, request
from anyport.protocol.errors import Fault
from anyport.protocol.request import (
    META_BYTES_CACHED_MAX,
    METAS_CACHED_MAX,
    ParsedRequest,
    read_plain_call,
    read_request,
    split_token,
)
from anyport.wire.jsonrpc import Request, decode
from anyport.wire.raw_json import unique_members
from tests.wire.source import SAMPLES, STYLES, written


def read(params: Any) -> ParsedRequest | Fault:
    raw = params if isinstance(params, bytes | None) else json.dumps(params).encode()
    return read_request(Request(b"1", "tools/call", raw))


def sound(params: Any) -> ParsedRequest:
    found = read(params)
    assert isinstance(found, ParsedRequest)
    return found


def test_a_request_without_params_has_empty_ones() -> None:
    found = sound(None)

    assert (found.params, found.param_members, found.meta_members) == (b"{}", {}, {})
    assert found.progress_token is None


def test_params_and_what_they_say_of_the_request_are_taken_apart() -> None:
    found = sound(b'{ "name": "a", "_meta": {"progressToken": 7, "k": 1.0} }')

    assert {name: bytes(value) for name, value in found.param_members.items()} == {
        "name": b'"a"',
        "_meta": b'{"progressToken": 7, "k": 1.0}',
    }
    assert bytes(found.meta_members["k"]) == b"1.0"
    assert found.progress_token == b"7"


@pytest.mark.parametrize(
    ("token", "read_as"),
    [
        (b'"t"', b'"t"'),
        (b'""', b'""'),
        (b"0", b"0"),
        (b"-5", b"-5"),
        (b"1.5", None),
        (b"null", None),
        (b"true", None),
        (b"{}", None),
        (b"[1]", None),
    ],
)
def test_a_progress_token_is_a_string_or_an_integer_or_none(
    token: bytes, read_as: bytes | None
) -> None:
    assert sound(b'{"_meta":{"progressToken":%b}}' % token).progress_token == read_as


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b'["a"]',
        b'{"name":"a","name":"b"}',
        b'{"name":"a","nam\\u0065":"b"}',
        b'{"name":"a","NAME":"b"}',
        b'{"name":"a","Arguments":{}}',
        b'{"uri\\u0000x":"a"}',
        b'{"_META":{}}',
        b'{"_meta":{"a":1,"a":2}}',
        b'{"_meta":7}',
        b'{"_meta":null}',
        b'{"_meta":[]}',
        b'{"_meta":"x"}',
    ],
)
def test_params_that_could_be_read_in_two_ways_are_refused(params: bytes) -> None:
    fault = read(params)

    assert isinstance(fault, Fault)
    assert fault.message.startswith("Invalid params: ")


@pytest.mark.parametrize("key", sorted(meta.KNOWN_KEYS))
@pytest.mark.parametrize("vary", [str.upper, str.title, lambda key: key + "\0"])
def test_a_variant_of_a_key_that_we_own_is_refused(key: str, vary: Callable[[str], str]) -> None:
    fault = read({"name": "a", "_meta": {key: "x", vary(key): 1}})

    assert isinstance(fault, Fault)
    assert fault.message == f"Invalid params: {vary(key)!r} is a misspelt key of _meta"


@pytest.mark.parametrize("token", [b"1.0", b"1e0", b"true", b"{}", b"[1]"])
def test_what_is_no_progress_token_is_not_sent_on(token: bytes) -> None:
    # A server may write 1.0 as 1, which may be the token of another call.
    assert sound(b'{"_meta":{"progressToken":%b},"a":1.0}' % token).params == b'{"a":1.0}'
    assert sound(b'{"_meta":{"k":1,"progressToken":%b}}' % token).params == b'{"_meta":{"k":1}}'


def test_unknown_members_are_kept() -> None:
    assert set(sound({"name": "a", "vendor": 1, "names": 2}).param_members) == {
        "name",
        "vendor",
        "names",
    }


def test_the_same_meta_is_parsed_once() -> None:
    about = {"who": "test_what_a_client_always_says"}

    first, second = sound({"_meta": about}), sound({"name": "b", "_meta": about})

    assert first.meta_members is second.meta_members


def test_what_is_remembered_is_short_and_does_not_change_with_each_request() -> None:
    long = {"_meta": {"long": "x" * META_BYTES_CACHED_MAX}}
    counted = {"_meta": {"progressToken": "test_what_is_remembered"}}
    traced = {"_meta": {"traceparent": "00-a-b-01"}}

    for params in (long, counted, traced):
        assert sound(params).meta_members is not sound(params).meta_members


def test_what_is_remembered_is_bounded() -> None:
    for number in range(2 * METAS_CACHED_MAX):
        sound({"_meta": {"number": number}})

        assert len(request._META_CACHE) <= METAS_CACHED_MAX


# Plain calls.

IDS: list[Any] = [0, 1, -1, 10**17, 10**30, "a", "", "é", '"', "\\", "x y", 1.5, None, True, {}]
NAMES = ["echo", "abc", "s__echo", "", "é", "a\\b", 'a"b']
ABOUTS = st.sampled_from(
    [
        {"progressToken": 5},
        {"progressToken": "a"},
        {"progressToken": 0, "k": 1},
        {"k": 1, "progressToken": 7},
        {"k": 1, "progressToken": 7, "l": 2},
        {"k": {"progressToken": 7}},
        {"k": {"progressToken": 7}, "progressToken": 8},
        {"progressToken": 1.5},
        {"progressToken": None},
    ]
)
STRANGERS = ["NAME", "Name", "argument", "argumentz", "_Meta", "name\0", "x", ""]


@st.composite
def calls(draw: st.DrawFn) -> bytes:
    """Calls with members in any order, some missing, duplicate or misspelt."""
    parts: dict[str, st.SearchStrategy[Any]] = {
        "name": st.sampled_from([*NAMES, 7, None]),
        "arguments": st.just({"a": 1}) | SAMPLES,
        "_meta": st.just({}) | st.just({"k": 1}) | ABOUTS | SAMPLES,
    }
    usual = st.sampled_from([["name", "arguments"], ["name", "arguments", "_meta"]])
    strange = st.lists(st.sampled_from([*parts, *STRANGERS]), max_size=4)
    names = draw(usual | strange)
    chance = Random(draw(st.integers(0, 2**32)))
    inner = [(name, draw(parts.get(name, SAMPLES))) for name in names]
    params = written(inner, draw(st.sampled_from(["compact", "compact", *STYLES])), chance).raw
    id = json.dumps(draw(st.sampled_from(IDS))).encode()
    form = draw(
        st.sampled_from(
            [
                b'{"jsonrpc":"2.0","id":%(id)b,"method":"tools/call","params":%(params)b}',
                b'{"method":"tools/call","params":%(params)b,"jsonrpc":"2.0","id":%(id)b}',
                b'{"jsonrpc":"2.0","id":%(id)b,"method":"tools/call","params":%(params)b,"x":1}',
                b'{"jsonrpc":"2.0","id":%(id)b,"method":"tools/call","params":%(params)b ',
                b'{"method":"tools/call","params":%(params)b,"params":{},"jsonrpc":"2.0","id":1}',
                b' {"jsonrpc":"2.0","id":%(id)b,"method":"tools/call","params":%(params)b}',
                b'{"jsonrpc":"2.0","id":%(id)b,"method":"tools/list","params":%(params)b}',
            ]
        )
    )
    return bytes(form % {b"id": id, b"params": params})


@given(calls())
@settings(max_examples=500)
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","NAME":"evl"}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"abc","name":"evl"}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","argument":1}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"NAME":12,"arguments":{}}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}]')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}},1')
@example(
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"a","arguments":1}}'
)
@example(b'{"jsonrpc":"2.0","id":"\xff","method":"tools/call","params":{"name":"a","arguments":1}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xb2","arguments":1}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools\xff","params":{"name":"a","arguments":1}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":"\xff"}}')
@example(b'{"jsonrpc":"2.0","id":01,"method":"tools/call","params":{"name":"a","arguments":1}}')
@example(b'{"jsonrpc":"2.0","id":-0,"method":"tools/call","params":{"name":"a","arguments":1}}')
@example(b'{"method":"tools/call","params":{"name":"a","arguments":{}},"jsonrpc":"2.0","id":1}\n')
@example(b'{"method":"tools/call","params":{"name":"a","arguments":{}},"jsonrpc":"2.0","id":1}')
def test_a_call_that_looks_plain_is_read_like_any_other(raw: bytes) -> None:
    plain = read_plain_call(raw)
    if plain is None:
        return

    frame = decode(raw)
    assert isinstance(frame, Request)
    assert (frame.id, frame.method, frame.params) == (plain.id, "tools/call", plain.params)
    params = {name: bytes(value) for name, value in unique_members(plain.params).items()}
    assert params.keys() <= {"name", "arguments", "_meta"}
    assert json.loads(params["name"]) == plain.name
    about = params.get("_meta", b"")
    assert plain.raw_meta == (about if plain.token is None else split_token(about)[0])


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1}}}',
        b'{"method":"tools/call","params":{"name":"a","arguments":{"b":1}},"jsonrpc":"2.0","id":1}',
    ],
)
def test_the_calls_of_official_clients_are_plain(raw: bytes) -> None:
    plain = read_plain_call(raw)

    assert plain is not None
    assert (plain.id, plain.name, plain.raw_meta) == (b"1", "a", b"")
    assert plain.params == b'{"name":"a","arguments":{"b":1}}'


def test_a_plain_call_may_say_something_of_itself() -> None:
    raw = (
        b'{"jsonrpc":"2.0","id":"x","method":"tools/call",'
        b'"params":{"name":"a","arguments":{},"_meta":{"k":1}}}'
    )

    plain = read_plain_call(raw)

    assert plain is not None
    assert plain.raw_meta == b'{"k":1}'


@pytest.mark.parametrize(
    ("about", "split"),
    [
        (b'{"progressToken":7}', (b'{"progressToken":0}', b"7")),
        (b'{"progressToken":"a b","k":1}', (b'{"progressToken":0,"k":1}', b'"a b"')),
        (b'{"k":1,"progressToken":0}', (b'{"k":1,"progressToken":0}', b"0")),
    ],
)
def test_a_progress_token_is_split_from_the_rest_of_meta(
    about: bytes, split: tuple[bytes, bytes]
) -> None:
    raw = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        b'"params":{"name":"a","arguments":{},"_meta":%b}}' % about
    )

    plain = read_plain_call(raw)

    assert split_token(about) == split
    assert plain is not None
    assert (plain.raw_meta, plain.token) == split
    assert plain.params == b'{"name":"a","arguments":{},"_meta":%b}' % about


@pytest.mark.parametrize(
    "about",
    [
        b"{}",
        b'{"k":{"progressToken":7}}',
        b'{"progressToken":1,"progressToken":2}',
        b'{"progressToken":1.5}',
        b'{"progressToken": 1}',
        b'{"k":1,"progressToken":7,"l":2}',
    ],
)
def test_a_token_in_an_unusual_place_is_left_where_it_is(about: bytes) -> None:
    assert split_token(about) == (about, None)


def test_what_is_refused_by_its_size_or_its_depth_is_not_plain() -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":%b}}'

    for arguments in (b"[" * 200 + b"]" * 200, b"1" * 2000, b'"\xff"'):
        assert read_plain_call(call % arguments) is None
