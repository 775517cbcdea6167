"""The short way of reading a message and the long one never disagree."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyport.wire.codec import (
    ENVELOPE,
    INBOUND,
    NUMBER_DIGITS_MAX,
    decode,
    decode_checked,
    refuse,
)
from anyport.wire.frame import BadFrame, Request, Result
from tests.wire.source import SAMPLES, STYLES, written

IDS: list[Any] = [0, 1, -1, 10**30, "", "a", "é", "\0", '"', 1.5, 1e300, True, None, [], {}]
METHODS: list[Any] = ["tools/call", "ping", "", "é", "a\nb", '"', 7, None, [], {}]
VERSIONS: list[Any] = ["2.0", "2.0", "2.0", "1.0", "", 2.0, 2, None]
STRANGERS = ["jsonRpc", "ID", "Method", "params\0", "PARAMS", "x", "", "éé", "resul", "parems"]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Envelopes with some of their members, in any order, some twice, some misspelt."""
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
    if refuse(damaged, INBOUND) is None:
        assert decode(damaged) == decode_checked(damaged)


@pytest.mark.parametrize("id", [value for value in IDS if type(value) in (int, str)])
def test_plain_messages_are_what_they_say(id: Any) -> None:
    raw_id = json.dumps(id).encode()
    request = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"a":1}}' % raw_id
    result = b'{"jsonrpc":"2.0","id":%b,"result":{"a":1}}' % raw_id

    assert decode(request) == Request(raw_id, "tools/call", b'{"a":1}')
    assert decode(result) == Result(raw_id, b'{"a":1}')


PLAIN = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}'


@pytest.mark.parametrize("name", sorted(ENVELOPE))
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


@pytest.mark.parametrize("offset", [*range(40), *range(960, 1040), 1999, 2000, 2001, 5000])
def test_a_number_that_is_too_long_is_found_wherever_it_stands(offset: int) -> None:
    def message(number: bytes) -> bytes:
        return PLAIN.replace(b'{"a":1}', b'{"a":"%b","b":%b}' % (b"x" * offset, number))

    refused = decode(message(LONG))

    assert isinstance(refused, BadFrame)
    assert "digits" in refused.message
    assert refused.id == b"1"
    assert isinstance(decode(message(FITS)), Request)
    assert isinstance(decode(message(b"-" + FITS)), Request)
    assert isinstance(decode(message(b'"%b"' % LONG)), Request)


@pytest.mark.parametrize("tail", [0, 1, 999, 1000, 1001, 3000])
def test_a_number_that_is_too_long_is_found_whatever_follows_it(tail: int) -> None:
    raw = PLAIN.replace(b'{"a":1}', b'{"b":%b,"a":"%b"}' % (LONG, b"x" * tail))

    assert isinstance(decode(raw), BadFrame)


def test_long_digits_with_a_point_or_an_exponent_are_as_long_as_their_longest_run() -> None:
    for number in (b"1." + LONG, LONG + b".5", LONG + b"e5", b"1e" + LONG):
        assert isinstance(decode(PLAIN.replace(b":1}}", b":%b}}" % number)), BadFrame), number[:9]
