"""What rules look at."""

from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN
from anyport.record.lint.model import (
    Depth,
    Fault,
    Frame,
    Leg,
    answered,
    asking,
    both,
    failed,
    hears,
    legacy,
)


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

    assert both(legacy, asking("tools/call"), answered("tools/call"))(asked)
    assert not legacy(told)
    assert not asking("ping")(asked)
    assert hears("x")(told)
    assert not failed(asked)
    assert failed(leg(error_code=-1))


def test_each_depth_says_what_it_takes() -> None:
    assert len({depth.wanted for depth in Depth}) == len(Depth)


def test_a_fault_is_where_its_message_is() -> None:
    answer = Frame(kind="response", at=7)
    assert Fault(leg=leg(), frame=answer, words="no").place == "line 7"
    assert Fault(leg=leg(), frame=Frame(kind="response"), words="no").place == leg().id
    assert Fault(leg=leg(), frame=None, words="no").place == leg().id
