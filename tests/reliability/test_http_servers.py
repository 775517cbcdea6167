"""Servers over HTTP that answer too much, too little, or something else; others never notice."""

import threading
from collections.abc import Callable
from itertools import count
from typing import Final

import pytest

from tests.harness import WAIT_SECONDS, Message
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    legacy,
    modern,
    tool,
)
from tests.reliability.conftest import Serve
from tests.rig.hostile_server import filling
from tests.rig.http_probe import HttpProbe
from tests.rig.invalid_replies import (
    INVALID_REPLIES,
    LATER,
    MESSAGE_BYTES_MAX,
    TIMED_OUT,
    called,
    fine,
    nothing_else,
)
from tests.rig.probe import MIB, eventually, text_of
from tests.rig.raw_http_client import RawHttpClient, request

pytestmark = pytest.mark.slow

PEAK_BYTES_MAX: Final = 16 * MIB
TOOLS_MAX: Final = 5_000
PAGES_MAX: Final = 100
SCHEMAS_BYTES_MAX: Final = 8 * MIB
RESUMES_MAX: Final = 8
STANDING_MAX: Final = 3
"""How often a stream beside that is asked for meanwhile, later and later each time."""
REDIRECTS_MAX: Final = 3
GROWN_BYTES_MAX: Final = 30 * MIB
"""What thousands of tools may take up as long as they are there."""
FAILED: Final = "failed to answer: "
FATAL: Final = (
    *("half_a_body", "half_a_stream", "an_empty_stream", "another_protocol", "a_bomb", "a_page"),
    *("much_later", "a_circle", "an_event_without_end", "chunks_without_end"),
)
"""Some of each sort."""
ANY: Final = {**INVALID_REPLIES, **LATER}
START_WORDS: Final = {
    "an_empty_stream": "HTTP 200 and text/event-stream, which is no MCP message",
}
"""Where the reason is another one than for a call."""

ERAS: Final[dict[str, Callable[..., Script]]] = {"modern": modern, "legacy": legacy}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Callable[..., Script]:
    """What a server speaks."""
    return ERAS[request.param]


Era = Callable[..., Script]


def tools_of(visitor: RawHttpClient, slug: str) -> list[str]:
    """What a server offers, as all pages of the list say."""
    names: list[str] = []
    cursor: Message = {}
    while True:
        page = visitor.send(request("tools/list", cursor, next(visitor.ids))).message["result"]
        names += [each["name"] for each in page["tools"] if each["name"].startswith(f"{slug}__")]
        if "nextCursor" not in page:
            return names
        cursor = {"cursor": page["nextCursor"]}


def wait_warned(there: HttpProbe, words: str) -> Message:
    """Wait until the status of the bad server has these words in a warning."""
    found: list[Message] = []

    def warned() -> bool:
        backend = there.status()["backends"]["bad"]
        found[:] = [backend]
        return any(words in warning for warning in backend.get("warnings", ()))

    eventually(warned, words)
    return found[0]


# One call.


def test_a_reply_that_is_none_costs_its_call_alone(serve: Serve, era: Era) -> None:
    with ScriptedHttpServer(era(called, "fine", *INVALID_REPLIES)) as web:
        bad = {"url": web.url, "timeout": WAIT_SECONDS, "maxMessageBytes": MESSAGE_BYTES_MAX}
        with serve({"bad": bad, "slow": {**bad, "timeout": 1}}) as there:
            visitor = RawHttpClient(there.port)
            for name, wild in INVALID_REPLIES.items():
                slug = "slow" if wild.words == TIMED_OUT else "bad"
                with there.peak(PEAK_BYTES_MAX):
                    error = visitor.call(f"{slug}__{name}")["error"]
                assert error["code"] == -32000, (name, error)
                assert wild.words in error["message"], (name, error)
                assert text_of(visitor.call(f"{slug}__fine", text=name)) == name
                there.calls_owed += 2
            for backend in there.status()["backends"].values():
                assert (backend["status"], backend["restarts"]) == ("running", 0)
            visitor.close()
        calls = [heard.message["params"]["name"] for heard in web.of("tools/call")]
        for name in INVALID_REPLIES:
            # Nothing is sent twice but what was sent elsewhere, and that only so often.
            assert calls.count(name) == 1 + REDIRECTS_MAX * (
                name in ("a_circle", "a_longer_circle")
            )


def forgetful(retry: str) -> Script:
    """A legacy server whose streams end before they have begun, and should be taken up again."""

    beat = f"id: 1\nretry: {retry}\n\n".encode()

    def breathe(back: Reply) -> None:
        back.stream()
        back.send(b"%x\r\n%b\r\n" % (len(beat), beat))
        back.end()

    return legacy(
        fine(lambda _, back: breathe(back)),
        *("fine", "never"),
        stands=lambda _, back: breathe(back),
    )


def test_a_server_cannot_have_itself_asked_all_the_time(serve: Serve) -> None:
    with ScriptedHttpServer(forgetful("0")) as web, serve({"bad": {"url": web.url}}) as there:
        visitor = RawHttpClient(there.port)
        error = visitor.call("bad__never")["error"]
        assert "closed its stream before it had answered" in error["message"]
        resumed = [heard for heard in web.heard if heard.fields.get("last-event-id") == "1"]
        assert RESUMES_MAX <= len(resumed) <= RESUMES_MAX + STANDING_MAX
        assert text_of(visitor.call("bad__fine", text="and then")) == "and then"
        visitor.close()


def test_a_server_cannot_have_a_caller_wait_for_days(serve: Serve) -> None:
    with (
        ScriptedHttpServer(forgetful("999999999")) as web,
        serve({"bad": {"url": web.url, "timeout": 1}}) as there,
    ):
        visitor = RawHttpClient(there.port)
        assert visitor.call("bad__never")["error"]["message"] == TIMED_OUT
        assert text_of(visitor.call("bad__fine", text="and then")) == "and then"
        visitor.close()


# The handshake.


def test_a_server_that_answers_wildly_from_the_start_is_down_until_it_is_repaired(
    serve: Serve,
) -> None:
    def play(heard: ReceivedRequest, back: Reply) -> None:
        ANY[heard.target.rsplit("/", 1)[1].partition("?")[0]].play(heard, back)

    with ScriptedHttpServer(play) as web:
        bad = {
            name.replace("_", "-"): {
                "url": f"{web.url}/{name}",
                "timeout": 1,
                "maxMessageBytes": MESSAGE_BYTES_MAX,
                "transport": "streamable-http",
            }
            for name in FATAL
        }
        with serve(bad) as there:
            visitor = RawHttpClient(there.port)
            for slug in bad:
                error = visitor.call(f"{slug}__fine", text="hello?")["error"]
                assert error["code"] == -32000, error
                eventually(lambda: bool(last_error(there, slug)), slug)  # noqa: B023
            for name, slug in zip(FATAL, bad, strict=True):
                reason = last_error(there, slug)
                assert START_WORDS.get(name, ANY[name].words.removeprefix(FAILED)) in reason, name

            web.script = legacy(fine(nothing_else), "fine")

            for slug in bad:
                eventually(lambda: is_running(there, slug), f"{slug} is back")  # noqa: B023
                assert text_of(visitor.call(f"{slug}__fine", text=slug)) == slug
            visitor.close()


def is_running(there: HttpProbe, slug: str) -> bool:
    return bool(there.status()["backends"][slug]["status"] == "running")


def last_error(there: HttpProbe, slug: str) -> str:
    return str(there.status()["backends"][slug]["last_error"] or "")


# Lists.


def listing(answer: Script, era: Era) -> Script:
    """A server that lists its tools in its own way."""
    honest = era(fine(nothing_else))

    def script(heard: ReceivedRequest, back: Reply) -> None:
        (answer if heard.method == "tools/list" else honest)(heard, back)

    return script


def test_more_tools_than_anybody_can_use_are_cut_with_a_warning(serve: Serve, era: Era) -> None:
    tools = [tool("fine"), *(tool(f"tool_{number}") for number in range(2 * TOOLS_MAX))]

    with (
        ScriptedHttpServer(era(fine(nothing_else), *tools)) as web,
        serve({"bad": {"url": web.url}}) as there,
    ):
        there.growth_bytes_max += GROWN_BYTES_MAX
        backend = wait_warned(there, f"its tools were cut at {TOOLS_MAX}")
        assert backend["tool_count"] == TOOLS_MAX
        visitor = RawHttpClient(there.port)
        assert len(tools_of(visitor, "bad")) == TOOLS_MAX
        assert len(tools_of(visitor, "neighbour")) > 5
        assert text_of(visitor.call("bad__fine", text="still")) == "still"
        visitor.close()


def test_schemas_of_many_megabytes_are_cut_with_a_warning(serve: Serve, era: Era) -> None:
    def answer(heard: ReceivedRequest, back: Reply) -> None:
        """Ten megabytes a page; in all fifty."""
        page = int(heard.message["params"].get("cursor", "0"))
        words = {"type": "object", "description": filling(MIB)}
        tools = [tool(f"tool_{page}_{number}", words) for number in range(10)]
        rest = {"nextCursor": f"{page + 1}"} if page < 4 else {}
        back.result(heard, {"resultType": "complete", "tools": tools, **rest})

    with ScriptedHttpServer(listing(answer, era)) as web, serve({"bad": {"url": web.url}}) as there:
        there.growth_bytes_max += 4 * SCHEMAS_BYTES_MAX
        with there.peak(8 * SCHEMAS_BYTES_MAX):
            backend = wait_warned(there, "its tools were cut at 7")
        assert backend["tool_count"] == 7
        visitor = RawHttpClient(there.port)
        assert len(tools_of(visitor, "neighbour")) > 5
        visitor.close()
        # A modern list of no stated age is read again for a client, as far as the first time.
        assert all("cursor" not in heard.message["params"] for heard in web.of("tools/list"))


def test_a_list_that_is_too_large_for_a_message_is_named_as_the_reason(
    serve: Serve, era: Era
) -> None:
    def answer(heard: ReceivedRequest, back: Reply) -> None:
        words = {"type": "object", "description": filling(2 * MESSAGE_BYTES_MAX)}
        back.result(heard, {"resultType": "complete", "tools": [tool("large", words)]})

    with ScriptedHttpServer(listing(answer, era)) as web:
        bad = {"url": web.url, "maxMessageBytes": MESSAGE_BYTES_MAX}
        with serve({"bad": bad}) as there:
            backend = wait_warned(there, f"its reply has more than {MESSAGE_BYTES_MAX} bytes")
            assert backend["tool_count"] == 0


@pytest.mark.parametrize("name", ["a_page", "much_later", "half_a_body", "a_circle"])
def test_a_list_that_does_not_come_leaves_its_reason_in_the_status(serve: Serve, name: str) -> None:
    with (
        ScriptedHttpServer(listing(ANY[name].play, modern)) as web,
        serve({"bad": {"url": web.url}}) as there,
    ):
        backend = wait_warned(there, ANY[name].words)
        assert (backend["status"], backend["tool_count"]) == ("running", 0)
        visitor = RawHttpClient(there.port)
        assert len(tools_of(visitor, "neighbour")) > 5

        web.script = modern(fine(nothing_else), "fine")

        eventually(lambda: tools_of(visitor, "bad") == ["bad__fine"], "it is asked again")
        assert "warnings" not in there.status()["backends"]["bad"]
        visitor.close()


def test_a_list_without_end_is_cut_with_a_warning(serve: Serve, era: Era) -> None:
    pages = count(1)

    def answer(heard: ReceivedRequest, back: Reply) -> None:
        page = next(pages)
        rest = {"tools": [tool(f"tool_{page}")], "nextCursor": f"{page}"}
        back.result(heard, {"resultType": "complete", **rest})

    with ScriptedHttpServer(listing(answer, era)) as web, serve({"bad": {"url": web.url}}) as there:
        backend = wait_warned(there, f"its tools were cut after {PAGES_MAX} pages")
        assert backend["tool_count"] == PAGES_MAX
        assert len(web.of("tools/list")) == PAGES_MAX


def test_a_list_whose_pages_come_and_come_delays_nobody_elses(serve: Serve, era: Era) -> None:
    release = threading.Event()

    def answer(heard: ReceivedRequest, back: Reply) -> None:
        page = 2 if "cursor" in heard.message["params"] else 1
        if page > 1:
            release.wait(WAIT_SECONDS)
        rest = {"nextCursor": "more"} if page == 1 else {}
        back.result(heard, {"resultType": "complete", "tools": [tool(f"tool_{page}")], **rest})

    with ScriptedHttpServer(listing(answer, era)) as web, serve({"bad": {"url": web.url}}) as there:
        visitor = RawHttpClient(there.port)
        assert len(tools_of(visitor, "neighbour")) > 5
        assert there.status()["backends"]["bad"]["tool_count"] == 0
        release.set()
        eventually(lambda: tools_of(visitor, "bad") == ["bad__tool_1", "bad__tool_2"], "all pages")
        visitor.close()
