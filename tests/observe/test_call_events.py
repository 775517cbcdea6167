"""The words of the record about one exchange."""

import pytest

from anyport.observe.call_events import (
    ExchangeOutcome,
    client_metadata,
    client_text,
    event_type_of,
    exchange_metadata,
    exchange_outcome,
    network_transport,
)
from anyport.protocol.errors import Situation, server_failure
from anyport.protocol.exchange import Answered, Ending, ErrorAnswered, Failed
from tests.gateway.fakes import Asked, FakeSession, caller


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (None, ExchangeOutcome("cancelled", "cancelled")),
        (Answered(b'{"content":[]}'), ExchangeOutcome("success", "ok")),
        (
            Answered(b'{"content":[],"isError":true}'),
            ExchangeOutcome("failure", "tool_error", None, "the tool reported an error"),
        ),
        (
            ErrorAnswered(b'{"code":-32602,"message":"no"}'),
            ExchangeOutcome("failure", "server_error", -32602, "no"),
        ),
    ],
)
def test_whose_fault_it_was(ending: Ending | None, outcome: ExchangeOutcome) -> None:
    assert exchange_outcome(Asked().exchange, ending) == outcome


def test_a_timeout_is_told_apart_from_other_faults_of_the_gateway() -> None:
    exchange = Asked().exchange
    timed_out = exchange_outcome(exchange, Failed(server_failure("s", Situation.TIMED_OUT, "60s")))
    busy = exchange_outcome(exchange, Failed(server_failure("s", Situation.BUSY, "too much")))

    assert (timed_out.status, timed_out.outcome) == ("timeout", "timeout")
    assert (timed_out.timeout, busy.timeout) == ("total", "")
    assert (busy.status, busy.outcome) == ("failure", "gateway_error")


def test_only_tools_report_errors_in_results() -> None:
    ending = Answered(b'{"contents":[],"isError":true}')
    assert exchange_outcome(Asked("resources/read").exchange, ending).outcome == "ok"


def test_what_is_no_call_is_an_exchange() -> None:
    assert event_type_of(Asked("tools/list").exchange) == "gateway.exchange"
    assert event_type_of(Asked("prompts/get").exchange) == "gateway.prompt_get"


def test_what_is_noted_whatever_is_recorded() -> None:
    exchange = Asked(by=caller(FakeSession("mine"))).exchange
    exchange.name, exchange.parent_span_id, exchange.from_cache = "s__echo", "1" * 16, True

    assert exchange_metadata(exchange, "s", "echo") == {
        "profile": "default",
        "server": "s",
        "tool": "echo",
        "public_name": "s__echo",
        "session": "mine",
        "parent_span_id": "1" * 16,
        "cached": True,
    }
    assert exchange_metadata(Asked("ping").exchange, "", "") == {"profile": "default"}


def test_who_asks_is_told_without_what_is_not_known() -> None:
    assert client_metadata(caller()) == {
        "client_revision": "2025-11-25",
        "client_transport": "stdio",
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"name":"cursor","version":"1.0"}', "cursor 1.0"),
        (b'{"name":"cursor"}', "cursor"),
        (b'{"name":7}', ""),
        (None, ""),
    ],
)
def test_a_client_in_words(raw: bytes | None, words: str) -> None:
    assert client_text(raw) == words


def test_networks_have_the_names_of_the_conventions() -> None:
    assert (network_transport("stdio"), network_transport("streamable-http")) == ("pipe", "tcp")
