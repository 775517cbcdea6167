"""What wrk is given to send, and what is made of what it tells."""

import json

from bench.client import Call, Endpoint, call_params
from bench.load import MARK, Sample, lua, middle, script

ENDPOINT = "http://127.0.0.1:9/mcp/default"


def sample(cpu_us: float, errors: int) -> Sample:
    return Sample(
        requests=10, rps=1, p50_ms=1, p99_ms=2, errors=errors, bytes_each=3, cpu_us=cpu_us,
        own_cpu_us=cpu_us, share=1,
    )  # fmt: skip


def test_each_session_has_a_head_of_its_own() -> None:
    endpoint = Endpoint(ENDPOINT, "legacy")
    endpoint.sessions = ["a", "b"]

    sent = script(endpoint, "tools/list", {})

    assert [b"Mcp-Session-Id: a\r\n" in head for head in sent.heads] == [True, False]
    assert [b"Mcp-Session-Id: b\r\n" in head for head in sent.heads] == [False, True]


def test_a_request_is_whole_again_with_any_id_of_the_same_width() -> None:
    endpoint = Endpoint(ENDPOINT, "modern")
    endpoint.sessions = [None]
    call = Call(tool="count", expect="", progress=True)

    sent = script(endpoint, "tools/call", call_params(call, "s0__count", MARK))

    id = b"23456789"
    head, _, body = (sent.heads[0] + id + sent.tails[0] + id + sent.tails[1]).partition(b"\r\n\r\n")
    asked = json.loads(body)
    assert f"Content-Length: {len(body)}".encode() in head
    assert asked["id"] == asked["params"]["_meta"]["progressToken"] == int(id)


def test_any_byte_can_be_said_in_lua() -> None:
    assert lua([b'a"\\', b"\r\n7"]) == r'{"a\034\092","\013\0107"}'


def test_figures_are_medians_and_counts_are_sums() -> None:
    samples = [sample(9.0, 0), sample(1.0, 2), sample(2.0, 1)]

    found = middle(samples)

    assert (found.cpu_us, found.requests, found.errors) == (2.0, 30, 3)
