"""What the client adapters share: callers, and endings that cannot be delivered."""

import pytest

from anyport.protocol import meta
from anyport.protocol.adapters.client import deliver_ending, modern_caller
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Answered, Caller, Exchange, ExchangeEvent, Failed
from anyport.protocol.principal import Principal
from anyport.wire import raw_json
from tests.protocol.fakes import exchange as make_exchange

ALICE = Principal("token", "alice")
ENVELOPE = raw_json.members(
    b'{"%b":"2026-07-28","%b":{"sampling":{}},"%b":"debug"}'
    % (
        meta.PROTOCOL_VERSION.encode(),
        meta.CLIENT_CAPABILITIES.encode(),
        meta.LOG_LEVEL.encode(),
    )
)


def test_a_modern_caller_is_made_of_envelope_and_principal() -> None:
    caller = modern_caller(ENVELOPE, "dev", ALICE, "streamable-http")

    assert isinstance(caller, Caller)
    assert (caller.profile, caller.principal, caller.session) == ("dev", ALICE, None)
    assert caller.capabilities.questions == {"sampling"}
    assert (caller.log_level, caller.transport) == ("debug", "streamable-http")


def test_a_header_mismatch_comes_before_an_unknown_revision() -> None:
    unknown = {**ENVELOPE, meta.PROTOCOL_VERSION: raw_json.members(b'{"v":"2099-01-01"}')["v"]}
    mismatch = Fault(situation=Situation.HEADER_MISMATCH, message="they differ")

    assert modern_caller(unknown, "dev", ALICE, "streamable-http", lambda _: mismatch) is mismatch
    refused = modern_caller(unknown, "dev", ALICE, "streamable-http")
    assert isinstance(refused, Fault)
    assert refused.situation is Situation.UNSUPPORTED_REVISION


class Telling:
    """Fails on the first delivery and keeps the second."""

    def __init__(self, error: Exception) -> None:
        self._errors = [error]
        self.events: list[ExchangeEvent] = []

    def __call__(self, exchange: Exchange, event: ExchangeEvent) -> None:
        if self._errors:
            raise self._errors.pop()
        self.events.append(event)


def test_an_ending_that_cannot_be_delivered_becomes_a_failure_and_is_reported() -> None:
    notify = Telling(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        deliver_ending(notify, make_exchange()[0], Answered(b"{}"))
    assert [type(event) for event in notify.events] == [Failed]


def test_an_answer_that_does_not_fit_in_memory_is_an_overload() -> None:
    notify = Telling(MemoryError())

    deliver_ending(notify, make_exchange()[0], Answered(b"{}"))

    (events,) = notify.events
    assert isinstance(events, Failed)
    assert events.fault.situation is Situation.OVERLOADED
    assert "the call was carried out" in events.fault.message


def test_a_result_that_names_a_member_twice_is_the_servers_fault_and_nothing_broke() -> None:
    notify = Telling(raw_json.AmbiguousObject())

    deliver_ending(notify, make_exchange()[0], Answered(b"{}"))

    (events,) = notify.events
    assert isinstance(events, Failed)
    assert "names a member twice" in events.fault.message
