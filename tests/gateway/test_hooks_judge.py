"""The judge of filters."""

from anyport.gateway.hooks_judge import judge_filter


def test_a_good_filter_is_not_objected_to() -> None:
    assert judge_filter("server:github status:error dur:>1s") is None


def test_a_bad_one_is_shown_with_a_caret_under_the_fault() -> None:
    objection = judge_filter("server:a dur:fast")

    assert objection is not None
    assert objection.message.startswith("Not a number")
    assert objection.excerpt == "server:a dur:fast\n             ^^^^"


def test_a_time_is_unwise_in_a_filter_of_what_happens_now() -> None:
    objection = judge_filter("since:1h -until:2020-01-01 since:2h")

    assert objection is not None
    assert objection.usable
    assert objection.message.startswith("there is no use for since: and until: in a hook")
