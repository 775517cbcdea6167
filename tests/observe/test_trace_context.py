"""Ids that do not meet again, and a client's trace on its way through the gateway."""

import random
from collections.abc import Mapping

import pytest

from anyport.observe.trace_context import (
    CONTEXT_BYTES_MAX,
    IDS_PER_DRAW,
    STATE_CHARS_MAX,
    IdGenerator,
    is_sampled,
    is_unsampled,
    join_trace,
)
from anyport.protocol.exchange import Exchange
from anyport.record.trace_ids import parse_traceparent
from anyport.wire import raw_json
from tests.gateway.fakes import Asked

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OWN_TRACE, OWN_SPAN = "c" * 32, "d" * 16
PARENT = f"00-{TRACE}-{SPAN}-01"
SENT_ON = f"00-{TRACE}-{OWN_SPAN}-01"


def joined(
    context: Mapping[str, object] | None = None,
    carried: Mapping[str, str] | None = None,
    share: float | None = None,
    own_trace: str = OWN_TRACE,
) -> Exchange:
    params = {"name": "x"} if context is None else {"name": "x", "_meta": context}
    exchange = Asked(params=params).exchange
    exchange.trace_id, exchange.span_id = own_trace, OWN_SPAN
    exchange.trace_headers = carried or {}
    join_trace(exchange, share)
    return exchange


# Ids.


def test_ids_are_drawn_ahead_and_never_used_twice() -> None:
    sizes: list[int] = []

    def chance(size: int) -> bytes:
        sizes.append(size)
        return random.Random(len(sizes)).randbytes(size)

    ids = IdGenerator(chance)
    drawn = [ids.draw() for _ in range(IDS_PER_DRAW + 1)]

    assert len(sizes) == 2
    assert len({trace for trace, _ in drawn}) == len({span for _, span in drawn}) == len(drawn)
    assert {(len(trace), len(span)) for trace, span in drawn} == {(32, 16)}


def test_an_id_is_never_all_zero() -> None:
    chances = [bytes(IDS_PER_DRAW * 24), b"\x01" * IDS_PER_DRAW * 24]
    assert IdGenerator(lambda _: chances.pop(0)).draw() == (b"01" * 16, b"01" * 8)


# A trace in the message.


def test_without_a_trace_nobody_is_told_of_one() -> None:
    exchange = joined({"vendor": 1})
    assert (exchange.trace_id, exchange.parent_span_id) == (OWN_TRACE, "")
    assert (exchange.trace_context, exchange.param_fields) == ({}, ())


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_call_joins_the_trace_of_its_client_and_so_does_the_server(flags: str) -> None:
    exchange = joined({"traceparent": f"00-{TRACE}-{SPAN}-{flags}", "tracestate": "v=1"})

    own = f"00-{TRACE}-{OWN_SPAN}-{flags}"
    assert (exchange.trace_id, exchange.parent_span_id) == (TRACE, SPAN)
    assert exchange.trace_context == {"traceparent": raw_json.encode_string(own)}
    assert exchange.param_fields == (("traceparent", own), ("tracestate", "v=1"))
    assert is_unsampled(exchange) is (flags == "00")


@pytest.mark.parametrize("parent", ["nonsense", "", 7, None, {"a": 1}, f"00-{'0' * 32}-{SPAN}-01"])
def test_what_is_no_traceparent_is_replaced_and_its_state_dropped(parent: object) -> None:
    exchange = joined({"traceparent": parent, "tracestate": "v=1"})

    own = f"00-{OWN_TRACE}-{OWN_SPAN}-01"
    assert exchange.parent_span_id == ""
    assert exchange.trace_context == {
        "traceparent": raw_json.encode_string(own),
        "tracestate": None,
    }
    assert exchange.param_fields == (("traceparent", own),)


@pytest.mark.parametrize("name", ["tracestate", "baggage"])
def test_more_context_than_anyone_must_carry_is_dropped(name: str) -> None:
    fits, long = "x" * CONTEXT_BYTES_MAX, "x" * (CONTEXT_BYTES_MAX + 1)
    assert joined({name: fits}).trace_context == {}
    assert joined({name: long}).trace_context == {name: None}
    assert joined({"traceparent": PARENT, name: long}).param_fields == (("traceparent", SENT_ON),)


def test_a_name_written_in_escapes_is_found_too() -> None:
    exchange = Asked().exchange
    exchange.trace_id, exchange.span_id = OWN_TRACE, OWN_SPAN
    exchange.params = rb'{"_meta":{"\u0074raceparent":"nonsense"}}'
    exchange.param_members = raw_json.members(exchange.params)

    join_trace(exchange)

    assert "traceparent" in exchange.trace_context


@pytest.mark.parametrize(
    "state", ["v=1\r\nAuthorization: x", "v=\u00e9", "v=\0", "x" * (STATE_CHARS_MAX + 1), ""]
)
def test_what_cannot_stand_in_a_header_field_does_not(state: str) -> None:
    exchange = joined({"traceparent": PARENT, "tracestate": state})
    assert exchange.param_fields == (("traceparent", SENT_ON),)


def test_baggage_stays_in_the_message() -> None:
    exchange = joined({"traceparent": PARENT, "baggage": "k=1"})
    assert exchange.trace_context == {"traceparent": raw_json.encode_string(SENT_ON)}
    assert exchange.param_fields == (("traceparent", SENT_ON),)


# A trace in header fields.


def test_the_trace_of_the_request_is_that_of_a_message_without_one() -> None:
    exchange = joined(carried={"traceparent": PARENT, "tracestate": "v=1"})

    assert (exchange.trace_id, exchange.parent_span_id) == (TRACE, SPAN)
    assert exchange.trace_context == {
        "traceparent": raw_json.encode_string(SENT_ON),
        "tracestate": raw_json.encode_string("v=1"),
    }
    assert exchange.param_fields == (("traceparent", SENT_ON), ("tracestate", "v=1"))


def test_the_trace_in_a_message_counts_for_more_than_that_of_its_request() -> None:
    other = f"00-{'e' * 32}-{'f' * 16}-01"
    exchange = joined({"traceparent": PARENT}, {"traceparent": other, "tracestate": "v=1"})
    assert exchange.trace_id == TRACE
    assert exchange.param_fields == (("traceparent", SENT_ON),)


def test_baggage_in_a_message_does_not_hide_the_trace_of_its_request() -> None:
    exchange = joined({"baggage": "k=1"}, {"traceparent": PARENT})
    assert exchange.trace_id == TRACE
    assert exchange.trace_context == {"traceparent": raw_json.encode_string(SENT_ON)}


@pytest.mark.parametrize("parent", ["nonsense", "", "00-0-0-00"])
def test_a_field_that_is_no_traceparent_does_not_go_on(parent: str) -> None:
    exchange = joined(carried={"traceparent": parent, "tracestate": "v=1"})
    assert exchange.trace_id == OWN_TRACE
    for _, value in exchange.param_fields:
        assert parse_traceparent(value) is not None


# Where a collector is told.


def test_a_server_is_part_of_a_trace_that_begins_here_if_anybody_is_told_of_it() -> None:
    exchange = joined(share=1.0)
    own = f"00-{OWN_TRACE}-{OWN_SPAN}-01"
    assert exchange.trace_context == {"traceparent": raw_json.encode_string(own)}
    assert exchange.param_fields == (("traceparent", own),)
    assert exchange.parent_span_id == ""


def test_a_trace_that_is_not_told_says_so() -> None:
    own = f"00-{OWN_TRACE}-{OWN_SPAN}-00"
    assert joined(share=0.0).param_fields == (("traceparent", own),)
    assert joined({"traceparent": PARENT}, share=0.0).param_fields == (("traceparent", SENT_ON),)


def test_the_share_of_traces_is_about_what_it_says() -> None:
    chance = random.Random(7)
    drawn = [chance.randbytes(16).hex() for _ in range(4000)]
    kept = {id for id in drawn if is_sampled(id, 0.25)}
    assert 0.2 < len(kept) / len(drawn) < 0.3
    assert kept <= {id for id in drawn if is_sampled(id, 0.5)}
    assert all(is_sampled(id, 1.0) and not is_sampled(id, 0.0) for id in drawn)
