"""The transcript of an exchange, within limits."""

from itertools import count

from anyport.protocol.transcript import FRAMES_BYTES_MAX, FRAMES_KEPT_MAX, Transcript


def transcript(*, keeps: bool = True) -> Transcript:
    ticks = count(1)
    return Transcript(clock=lambda: float(next(ticks)), keeps_payloads=keeps)


def events(kept: Transcript) -> list[tuple[float, str, str, bytes | None]]:
    return [(each.at, each.kind, each.side, each.payload) for each in kept.frames]


def test_a_plain_question_and_answer_have_nothing_between_them() -> None:
    kept = transcript()
    kept.on_request_sent("tools/call", b'{"name":"a"}')
    kept.on_server_answer(b'{"content":[]}', failed=False)

    assert kept.frames == []
    assert (kept.first_params, kept.sent_params, kept.sent_at) == (
        b'{"name":"a"}',
        b'{"name":"a"}',
        1.0,
    )
    assert (kept.server_answer, kept.answered_at, kept.server_failed) == (
        b'{"content":[]}',
        2.0,
        False,
    )


def test_a_server_that_is_asked_again_has_its_first_answer_between() -> None:
    kept = transcript()
    kept.on_request_sent("tools/call", b"{}")
    kept.on_server_answer(b'{"resultType":"input_required"}', failed=False)
    kept.on_request_sent("tools/call", b'{"inputResponses":{}}')

    assert events(kept) == [
        (2.0, "response", "server", b'{"resultType":"input_required"}'),
        (3.0, "request", "server", b'{"inputResponses":{}}'),
    ]
    assert (kept.first_params, kept.sent_params, kept.server_answer) == (
        b"{}",
        b'{"inputResponses":{}}',
        None,
    )


def test_what_an_answer_led_to_comes_after_it() -> None:
    kept = transcript()
    kept.on_request_sent("tools/call", b"{}")
    kept.on_server_answer(b'{"resultType":"input_required"}', failed=False)
    kept.record("server-request", "client", "roots/list", None)
    kept.record("client-response", "client", "roots/list", b'{"roots":[]}')
    kept.on_request_sent("tools/call", b'{"inputResponses":{}}')

    assert [(each.at, each.kind) for each in kept.frames] == [
        (2.0, "response"),
        (3.0, "server-request"),
        (4.0, "client-response"),
        (5.0, "request"),
    ]


def test_an_answer_that_is_followed_by_another_is_kept() -> None:
    kept = transcript()
    kept.on_request_sent("tools/call", b"{}")
    kept.on_server_answer(b'{"taskId":"1"}', failed=False)
    kept.on_server_answer(b'{"content":[]}', failed=False)

    assert events(kept) == [(2.0, "response", "server", b'{"taskId":"1"}')]
    assert kept.frames[0].method == "tools/call"
    assert (kept.server_answer, kept.answered_at) == (b'{"content":[]}', 3.0)


def test_a_client_that_comes_back_was_answered_before() -> None:
    kept = transcript()
    kept.on_client_answer(b'{"resultType":"input_required"}', failed=False)
    kept.on_client_retry("tools/call", b'{"name":"a"}', b'{"requestState":"x"}')
    kept.on_client_answer(b'{"resultType":"input_required"}', failed=False)
    kept.on_client_retry("tools/call", b'{"requestState":"x"}', b'{"requestState":"y"}')

    assert events(kept) == [
        (1.0, "response", "client", b'{"resultType":"input_required"}'),
        (2.0, "request", "client", b'{"requestState":"x"}'),
        (3.0, "response", "client", b'{"resultType":"input_required"}'),
        (4.0, "request", "client", b'{"requestState":"y"}'),
    ]
    assert kept.client_answer is None
    assert kept.original_params == b'{"name":"a"}'


def test_what_is_passed_on_is_kept_with_what_it_was_and_counts_once() -> None:
    kept = transcript()
    for _ in range(FRAMES_KEPT_MAX):
        kept.record("server-notification", "server", "notifications/progress", b"7")
        kept.record_forwarded("server-notification", "client", "notifications/progress", b'"mine"')

    assert [(each.side, each.forwarded) for each in kept.frames[:2]] == [
        ("server", False),
        ("client", True),
    ]
    assert (len(kept.frames), kept.omitted_frames) == (FRAMES_KEPT_MAX, FRAMES_KEPT_MAX // 2)


def test_of_what_has_no_end_frames_are_only_counted() -> None:
    kept = transcript()
    kept.frames_max = 0
    kept.record("server-notification", "client", "notifications/tools/list_changed", b"{}")

    assert (kept.frames, kept.omitted_frames) == ([], 1)


def test_where_no_payloads_are_wanted_only_sizes_are_kept() -> None:
    kept = transcript(keeps=False)
    kept.record("server-notification", "server", "notifications/progress", b"12345")
    kept.record_forwarded("server-notification", "client", "notifications/progress", b"123456")

    assert [(each.size, each.payload) for each in kept.frames] == [(5, None)]


def test_frames_beyond_the_limit_are_counted() -> None:
    kept = transcript()
    for _ in range(FRAMES_KEPT_MAX + 3):
        kept.record("server-notification", "client", "notifications/progress", b"1")

    assert (len(kept.frames), kept.omitted_frames) == (FRAMES_KEPT_MAX, 3)


def test_payloads_beyond_the_limit_are_left_out() -> None:
    kept = transcript()
    large = b"x" * (FRAMES_BYTES_MAX - 1)
    for payload in (large, b"12", b"1"):
        kept.record("server-notification", "client", "notifications/message", payload)

    assert [each.payload for each in kept.frames] == [large, None, b"1"]
    assert [each.size for each in kept.frames] == [len(large), 2, 1]
