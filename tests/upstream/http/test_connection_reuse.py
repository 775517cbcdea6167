"""Whether a server's connections can be used more than once."""

from anyport.upstream.http.connection_reuse import (
    SINGLE_USE_VERDICT_SECONDS,
    SINGLE_USES_MAX,
    SINGLE_USES_OF_KEEPER_MAX,
    ConnectionReuse,
)


def lose(reuse: ConnectionReuse, count: int, now: float = 0.0) -> None:
    for _ in range(count):
        reuse.on_single_use(now)


def test_at_first_every_connection_is_used_again_save_for_what_must_not_be_sent_twice() -> None:
    reuse = ConnectionReuse()
    assert not reuse.is_refused(0.0)
    assert not reuse.doubtful
    assert reuse.risky
    reuse.on_reused()
    assert reuse.risky, "it may be closed a moment later"
    reuse.on_stayed_open()
    assert not reuse.risky


def test_a_server_that_does_not_keep_them_any_more_has_to_show_it_again() -> None:
    reuse = ConnectionReuse()
    reuse.on_stayed_open()
    lose(reuse, SINGLE_USES_MAX)
    reuse.on_reused()
    assert reuse.risky
    reuse.on_stayed_open()
    assert not reuse.risky


def test_one_that_was_lost_is_enough_to_risk_no_call() -> None:
    reuse = ConnectionReuse()
    reuse.on_single_use(0.0)
    assert reuse.doubtful
    assert not reuse.is_refused(0.0)


def test_once_enough_were_lost_none_is_and_nothing_is_risked_later() -> None:
    reuse = ConnectionReuse()
    lose(reuse, SINGLE_USES_MAX, 5.0)
    assert reuse.is_refused(5.0)
    later = 5.0 + SINGLE_USE_VERDICT_SECONDS
    assert not reuse.is_refused(later)
    assert reuse.doubtful
    reuse.on_single_use(later)
    assert reuse.is_refused(later + 1)


def test_one_that_is_kept_wipes_out_those_that_were_lost() -> None:
    reuse = ConnectionReuse()
    lose(reuse, SINGLE_USES_MAX)
    reuse.on_reused()
    assert not reuse.is_refused(0.0)
    assert not reuse.doubtful


def test_a_server_that_kept_some_needs_more_to_be_taken_for_one_that_does_not() -> None:
    reuse = ConnectionReuse()
    reuse.on_reused()
    lose(reuse, SINGLE_USES_OF_KEEPER_MAX - 1)
    assert not reuse.doubtful
    reuse.on_reused()
    lose(reuse, SINGLE_USES_OF_KEEPER_MAX - 1)
    assert not reuse.doubtful
    lose(reuse, 1)
    assert reuse.is_refused(0.0)
