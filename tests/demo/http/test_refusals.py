"""What is turned away at the door."""

from collections.abc import Iterator

import pytest

from tests.demo.driver import MODERN
from tests.demo.http.driver import ACCEPT, HttpDemo, Session, legacy

JSON = "application/json"


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo() as demo:
        yield demo


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("http://localhost:1234", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:99", True),
        ("https://example.com", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("null", False),
        ("http://[", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/none"])
def test_pages_from_elsewhere_are_refused(
    demo: HttpDemo, path: str, origin: str, welcome: bool
) -> None:
    response = demo.send("GET", path, headers={"Origin": origin})

    assert (response.status == 403) is not welcome


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (JSON, 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/jsonp", 415),
        ("", 415),
    ],
)
def test_a_body_must_say_that_it_is_json(demo: HttpDemo, kind: str, status: int) -> None:
    headers = {**Session(demo).headers, "Accept": ACCEPT, "Content-Type": kind}

    assert demo.send("POST", "/mcp", legacy(1, "ping"), headers).status == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (ACCEPT, 200),
        ("text/event-stream;q=0.5,APPLICATION/JSON", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        (JSON, 406),
        ("text/event-stream", 406),
        ("", 406),
    ],
)
def test_a_client_must_take_both_kinds_of_answer(demo: HttpDemo, accept: str, status: int) -> None:
    headers = {**Session(demo).headers, "Content-Type": JSON, "Accept": accept}

    assert demo.send("POST", "/mcp", legacy(1, "ping"), headers).status == status


def test_a_stream_is_for_those_who_take_one(demo: HttpDemo) -> None:
    headers = {**Session(demo).headers, "Accept": JSON}

    assert demo.send("GET", "/mcp", headers=headers).status == 406
    assert demo.send("GET", "/sse", headers=headers).status == 406


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/mcp", "GET, POST, DELETE"),
        ("HEAD", "/mcp", "GET, POST, DELETE"),
        ("POST", "/sse", "GET"),
        ("GET", "/messages", "POST"),
    ],
)
def test_a_method_that_is_not_there_is_told_which_are(
    demo: HttpDemo, method: str, path: str, allowed: str
) -> None:
    response = demo.send(method, path)

    assert (response.status, response.headers["Allow"]) == (405, allowed)


def test_a_message_is_refused_in_the_words_of_json_rpc(demo: HttpDemo) -> None:
    response = demo.post(legacy("mine", "ping"))

    assert (response.status, response.kind) == (400, JSON)
    assert response.message()["id"] == "mine"
    nameless = demo.post(b"{", {"MCP-Protocol-Version": MODERN}).message()
    assert "id" not in nameless
