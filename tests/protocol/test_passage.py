"""What went to and fro in one exchange is kept, within limits."""

from itertools import count

from anyport.protocol.passage import FRAMES_BYTES_MAX, FRAMES_KEPT_MAX, Passage


def passage(*, keeps: bool = True) -> Passage:
    ticks = count(1)
    return Passage(clock=lambda: float(next(ticks)), keeps=keeps)


def told(kept: Passage) -> list[tuple[float, str, str, bytes | None]]:
    return [(each.at, each.kind, each.side, each.payload) for each in kept.crossings]


def test_a_plain_question_and_answer_have_nothing_between_them() -> None:
    kept = passage()
    kept.asks("tools/call", b'{"name":"a"}')
    kept.answers(b'{"content":[]}', failed=False)

    assert kept.crossings == []
    assert (kept.first, kept.sent, kept.sent_at) == (b'{"name":"a"}', b'{"name":"a"}', 1.0)
    assert (kept.answer, kept.answered_at, kept.refused) == (b'{"content":[]}', 2.0, False)


def test_a_server_that_is_asked_again_has_its_first_answer_between() -> None:
    kept = passage()
    kept.asks("tools/call", b"{}")
    kept.answers(b'{"resultType":"input_required"}', failed=False)
    kept.asks("tools/call", b'{"inputResponses":{}}')

    assert told(kept) == [
        (2.0, "response", "server", b'{"resultType":"input_required"}'),
        (3.0, "request", "server", b'{"inputResponses":{}}'),
    ]
    assert (kept.first, kept.sent, kept.answer) == (b"{}", b'{"inputResponses":{}}', None)


def test_what_an_answer_led_to_comes_after_it() -> None:
    kept = passage()
    kept.asks("tools/call", b"{}")
    kept.answers(b'{"resultType":"input_required"}', failed=False)
    kept.note("server-request", "client", "roots/list", None)
    kept.note("client-response", "client", "roots/list", b'{"roots":[]}')
    kept.asks("tools/call", b'{"inputResponses":{}}')

    assert [(each.at, each.kind) for each in kept.crossings] == [
        (2.0, "response"),
        (3.0, "server-request"),
        (4.0, "client-response"),
        (5.0, "request"),
    ]


def test_an_answer_that_is_followed_by_another_is_kept() -> None:
    kept = passage()
    kept.asks("tools/call", b"{}")
    kept.answers(b'{"taskId":"1"}', failed=False)
    kept.answers(b'{"content":[]}', failed=False)

    assert told(kept) == [(2.0, "response", "server", b'{"taskId":"1"}')]
    assert kept.crossings[0].method == "tools/call"
    assert (kept.answer, kept.answered_at) == (b'{"content":[]}', 3.0)


def test_a_client_that_comes_back_was_answered_before() -> None:
    kept = passage()
    kept.gives(b'{"resultType":"input_required"}', failed=False)
    kept.goes_on("tools/call", b'{"name":"a"}', b'{"requestState":"x"}')
    kept.gives(b'{"resultType":"input_required"}', failed=False)
    kept.goes_on("tools/call", b'{"requestState":"x"}', b'{"requestState":"y"}')

    assert told(kept) == [
        (1.0, "response", "client", b'{"resultType":"input_required"}'),
        (2.0, "request", "client", b'{"requestState":"x"}'),
        (3.0, "response", "client", b'{"resultType":"input_required"}'),
        (4.0, "request", "client", b'{"requestState":"y"}'),
    ]
    assert kept.given is None
    assert kept.asked == b'{"name":"a"}'


def test_what_is_passed_on_is_kept_with_what_it_was_and_counts_once() -> None:
    kept = passage()
    for _ in range(FRAMES_KEPT_MAX):
        kept.note("server-notification", "server", "notifications/progress", b"7")
        kept.pass_on("server-notification", "client", "notifications/progress", b'"mine"')

    assert [(each.side, each.twin) for each in kept.crossings[:2]] == [
        ("server", False),
        ("client", True),
    ]
    assert (len(kept.crossings), kept.more) == (FRAMES_KEPT_MAX, FRAMES_KEPT_MAX // 2)


def test_of_what_has_no_end_frames_are_only_counted() -> None:
    kept = passage()
    kept.kept_max = 0
    kept.note("server-notification", "client", "notifications/tools/list_changed", b"{}")

    assert (kept.crossings, kept.more) == ([], 1)


def test_where_no_payloads_are_wanted_only_sizes_are_kept() -> None:
    kept = passage(keeps=False)
    kept.note("server-notification", "server", "notifications/progress", b"12345")
    kept.pass_on("server-notification", "client", "notifications/progress", b"123456")

    assert [(each.size, each.payload) for each in kept.crossings] == [(5, None)]


def test_frames_beyond_the_limit_are_counted() -> None:
    kept = passage()
    for _ in range(FRAMES_KEPT_MAX + 3):
        kept.note("server-notification", "client", "notifications/progress", b"1")

    assert (len(kept.crossings), kept.more) == (FRAMES_KEPT_MAX, 3)


def test_payloads_beyond_the_limit_are_left_out() -> None:
    kept = passage()
    large = b"x" * (FRAMES_BYTES_MAX - 1)
    for payload in (large, b"12", b"1"):
        kept.note("server-notification", "client", "notifications/message", payload)

    assert [each.payload for each in kept.crossings] == [large, None, b"1"]
    assert [each.size for each in kept.crossings] == [len(large), 2, 1]
