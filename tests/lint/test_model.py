"""What rules look at."""

from anyport.lint.model import (
    Depth,
    Frame,
    Leg,
    LintFault,
    all_of,
    has_error,
    has_message_of,
    is_legacy,
    requests_of,
    results_of,
)
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN


def leg(**members: object) -> Leg:
    made = {"id": "a", "side": "server", "depth": Depth.FULL, "method": "tools/call"}
    return Leg(**{**made, **members})  # type: ignore[arg-type]


def test_frames_come_in_order() -> None:
    first, middle, last = (Frame(kind=kind) for kind in ("request", "server-request", "response"))

    assert leg(request=first, between=(middle,), answer=last).frames == (first, middle, last)
    assert leg(between=(middle,)).frames == (middle,)


def test_a_result_is_one_without_an_error() -> None:
    good = Frame(kind="response", payload={"a": 1})
    bad = Frame(kind="response", error={"code": 1})

    assert leg(answer=good).result == {"a": 1}
    assert leg(answer=good).complete
    assert not leg(answer=bad).succeeded
    assert not leg(answer=good, error_code=1).succeeded
    assert not leg().succeeded
    asks = Frame(kind="response", payload={"resultType": "input_required"})
    assert leg(answer=asks).succeeded
    assert not leg(answer=asks).complete


def test_what_is_no_object_has_no_members() -> None:
    assert Frame(kind="request", payload=[1]).fields == {}
    assert Frame(kind="request").meta == {}
    assert Frame(kind="request", payload={"_meta": None}).meta == {}


def test_rules_say_what_they_are_for() -> None:
    asked = leg(revision=NEWEST_LEGACY, answer=Frame(kind="response", payload={}))
    told = leg(between=(Frame(kind="server-notification", method="x"),), revision=NEWEST_MODERN)

    assert all_of(is_legacy, requests_of("tools/call"), results_of("tools/call"))(asked)
    assert not is_legacy(told)
    assert not requests_of("ping")(asked)
    assert has_message_of("x")(told)
    assert not has_error(asked)
    assert has_error(leg(error_code=-1))


def test_a_fault_is_where_its_message_is() -> None:
    answer = Frame(kind="response", at=7)
    assert LintFault(leg=leg(), frame=answer, message="no").place == "line 7"
    assert LintFault(leg=leg(), frame=Frame(kind="response"), message="no").place == leg().id
    assert LintFault(leg=leg(), frame=None, message="no").place == leg().id
