"""What both fronts share: who asks, and endings that cannot be told."""

import pytest

from anyport.protocol import meta
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Answered, Caller, Exchange, Failed, Happening
from anyport.protocol.front import modern_caller, tell_ending
from anyport.protocol.principal import Principal
from anyport.wire import members
from tests.protocol.fakes import exchange as make_exchange

ALICE = Principal("token", "alice")
ENVELOPE = members.members(
    b'{"%b":"2026-07-28","%b":{"sampling":{}},"%b":"debug"}'
    % (
        meta.PROTOCOL_VERSION.encode(),
        meta.CLIENT_CAPABILITIES.encode(),
        meta.LOG_LEVEL.encode(),
    )
)


def test_a_modern_caller_is_who_its_envelope_and_its_principal_say() -> None:
    caller = modern_caller(ENVELOPE, "dev", ALICE, "streamable-http")

    assert isinstance(caller, Caller)
    assert (caller.profile, caller.principal, caller.session) == ("dev", ALICE, None)
    assert caller.capabilities.questions == {"sampling"}
    assert (caller.log_level, caller.transport) == ("debug", "streamable-http")


def test_headers_that_disagree_come_before_a_revision_nobody_knows() -> None:
    unknown = {**ENVELOPE, meta.PROTOCOL_VERSION: members.members(b'{"v":"2099-01-01"}')["v"]}
    mismatch = Fault(situation=Situation.HEADER_MISMATCH, message="they differ")

    assert modern_caller(unknown, "dev", ALICE, "streamable-http", lambda _: mismatch) is mismatch
    refused = modern_caller(unknown, "dev", ALICE, "streamable-http")
    assert isinstance(refused, Fault)
    assert refused.situation is Situation.UNSUPPORTED_REVISION


class Telling:
    """Breaks the first time it is asked to tell something, and remembers the second."""

    def __init__(self, error: Exception) -> None:
        self._errors = [error]
        self.told: list[Happening] = []

    def __call__(self, exchange: Exchange, happening: Happening) -> None:
        if self._errors:
            raise self._errors.pop()
        self.told.append(happening)


def test_an_ending_that_cannot_be_told_is_told_as_a_failure_and_goes_on_to_who_reports_it() -> None:
    tell = Telling(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        tell_ending(tell, make_exchange()[0], Answered(b"{}"))
    assert [type(happening) for happening in tell.told] == [Failed]


def test_an_answer_for_which_there_is_no_memory_is_told_as_that() -> None:
    tell = Telling(MemoryError())

    tell_ending(tell, make_exchange()[0], Answered(b"{}"))

    (told,) = tell.told
    assert isinstance(told, Failed)
    assert told.fault.situation is Situation.OVERLOADED
    assert "the call was carried out" in told.fault.message


def test_a_result_that_names_a_member_twice_is_the_servers_fault_and_nothing_broke() -> None:
    tell = Telling(members.Ambiguous())

    tell_ending(tell, make_exchange()[0], Answered(b"{}"))

    (told,) = tell.told
    assert isinstance(told, Failed)
    assert "names a member twice" in told.fault.message
