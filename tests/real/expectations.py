"""What a guest must see of a corner, by feature: where it can be, and where it cannot.

See `corners.py` for who they are. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.real import rig
from tests.real.corners import MODERN, TOOLS, UPDATED, Corner, Guest, lack_of, obstacle

PIXEL: Final = "iVBORw0KGgo="


class Observed:
    """What a guest saw of one corner."""

    def __init__(
        self, seen: Sequence[rig.Observation], corner: Corner, guest: Guest, at: Mapping[str, int]
    ) -> None:
        self.seen = seen
        self.corner = corner
        self.guest = guest
        self._at = at

    def of(self, saw: str, step: str) -> list[rig.Observation]:
        return rig.of(self.seen, saw, self._at[step]) if step in self._at else []

    def result(self, step: str) -> dict[str, Any]:
        found = self.of("result", step)
        return found[0]["result"] if len(found) == 1 else {}

    def text(self, step: str) -> str:
        """The first text of an answer."""
        return next((block["text"] for block in self.content(step) if "text" in block), "")

    def content(self, step: str) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = self.result(step).get("content", [])
        return blocks

    def asked(self, step: str) -> list[str]:
        return [question["method"] for question in self.of("asked", step)]

    def ended(self, wait: str) -> bool:
        """Whether what was waited for came."""
        return bool(self.of("waited", wait)) and not self.of("missed", wait)

    def listed(self, what: str) -> list[dict[str, Any]]:
        found = self.of("listed", what)
        return found[0]["items"] if found else []

    def told(self, method: str) -> list[dict[str, Any]]:
        """The params of all notifications with this method."""
        return [n.get("params", {}) for n in rig.of(self.seen, "notified") if n["method"] == method]


Judgement = Callable[[Observed], bool]


def _list(sight: Observed) -> bool:
    slug = sight.corner.slug
    tools = {tool["name"] for tool in sight.listed("tools")}
    lacking = {tool for feature, tool in TOOLS.items() if lack_of(sight.corner, feature)}
    there = {"add", "fail", "count", "think", "look", "shout", "draw", *TOOLS.values()} - lacking
    return (
        {f"{slug}__{tool}" for tool in there} <= tools
        and tools.isdisjoint(f"{slug}__{tool}" for tool in lacking)
        and sight.corner.note in {resource["uri"] for resource in sight.listed("resources")}
        and f"{slug}__greet" in {prompt["name"] for prompt in sight.listed("prompts")}
    )


def _progress(sight: Observed) -> bool:
    told = [(p["progress"], p.get("total")) for p in sight.of("progress", "count")]
    # The TypeScript SDKs lose what they read together with the answer.
    lost = not told and sight.guest.sdk.startswith("ts")
    return (told[:1] == [(1, 2)] or lost) and sight.text("count") == "counted to 2"


def _log(sight: Observed) -> bool:
    lines = [n for n in sight.told("notifications/message") if n.get("logger") == sight.corner.slug]
    # FastMCP's client asks for every level in the modern era, whatever its user wants.
    debug = ["debug"] if (sight.guest.sdk, sight.guest.revision) == ("fm", MODERN) else []
    levels = [line["level"] for line in lines if "canned" in str(line["data"])]
    return levels == [*debug, "info", "error"]


def _binary(sight: Observed) -> bool:
    [read] = sight.result("bytes").get("contents") or [{}]
    drawn = [(block["type"], block.get("data")) for block in sight.content("draw")]
    return drawn == [("image", PIXEL)] and read.get("blob") == "AP8="


def _link(sight: Observed) -> bool:
    found = [(block["type"], block.get("uri")) for block in sight.content("point")]
    return found == [("resource_link", sight.corner.note)]


def _url_error(sight: Observed) -> bool:
    """A modern client is asked; a legacy one gets the error, and comes again."""
    if sight.guest.revision == MODERN:
        return _asking("detour", "elicitation/create", "arrived")(sight)
    [error] = sight.of("error", "detour") or [{"code": 0}]
    urls = [asked["url"] for asked in error.get("data", {}).get("elicitations", [])]
    told = error["code"] == -32042 and urls == ["http://[::1]/"]
    return told and not sight.asked("detour") and sight.text("detour again") == "arrived"


def _asking(step: str, method: str, answer: str) -> Judgement:
    return lambda sight: sight.asked(step) == [method] and sight.text(step) == answer


WORKS: Final[Mapping[str, Judgement]] = {
    "list": _list,
    "call": lambda sight: sight.text("add") == "3",
    "progress": _progress,
    "cancel": lambda sight: (
        bool(sight.of("cancelled", "hang"))
        and sight.text("ended") == "cancelled"
        and sight.text("goodbye") == "7"
    ),
    "error": lambda sight: (
        sight.result("fail").get("isError") is True and "fail" in sight.text("fail")
    ),
    "sampling": _asking("think", "sampling/createMessage", "canned sample"),
    "form": _asking("ask", "elicitation/create", "canned, 1, True"),
    "url": _asking("visit", "elicitation/create", "accept"),
    "url error": _url_error,
    "roots": _asking("look", "roots/list", "file:///tmp/canned"),
    "log": _log,
    "list change": lambda sight: sight.text("change") == "changed" and sight.ended("changed"),
    "subscription": lambda sight: bool(sight.of("result", "subscribe")) and sight.ended("updated"),
    "prompt": lambda sight: "Greet Ada." in str(sight.result("greet").get("messages")),
    "completion": lambda sight: (
        sight.result("complete").get("completion", {}).get("values") == ["Ada", "Alan"]
    ),
    "structured": lambda sight: sight.result("add").get("structuredContent") == {"result": 3},
    "binary": _binary,
    "audio": lambda sight: (
        [(b["type"], b.get("data")) for b in sight.content("speak")] == [("audio", PIXEL)]
    ),
    "link": _link,
}
"""What must be seen of a feature where it can be."""

FEATURES: Final = tuple(WORKS)


def _refused(step: str, what: str) -> Judgement:
    """The call fails, with words that say what could not be asked, and the client was not asked."""

    def refused(sight: Observed) -> bool:
        words = sight.text(step) if sight.result(step).get("isError") else ""
        words = words or "".join(error["message"] for error in sight.of("error", step))
        return what in words and not sight.asked(step)

    return refused


def _reworded(step: str) -> Judgement:
    """The tool answers, in content that every client knows."""
    return lambda sight: (
        {block["type"] for block in sight.content(step)} in ({"text"}, {"resource"})
        and not sight.result(step).get("isError")
    )


def _unstructured(sight: Observed) -> bool:
    """All there is to know is in the texts."""
    texts = [block.get("text") for block in sight.content("add")]
    return "structuredContent" not in sight.result("add") and texts == ["3"]


INSTEAD: Final[Mapping[str, Judgement]] = {
    "cancel": lambda sight: sight.text("goodbye") == "7",
    "form": _refused("ask", "elicitation"),
    "url": _refused("visit", "elicitation"),
    "url error": _refused("detour", "URL"),
    "structured": _unstructured,
    "audio": _reworded("speak"),
    "link": _reworded("point"),
    "list change": lambda sight: sight.text("change") == "changed",
    "subscription": lambda sight: (
        not [n for n in sight.told(UPDATED) if n["uri"] == sight.corner.note]
        and sight.text("change") == "changed"
    ),
}
"""What must be seen where it cannot be."""


def _unknown(tool: str) -> Judgement:
    """Nobody has such a tool, and the gateway says so."""
    return lambda sight: [e["code"] for e in sight.of("error", tool)] in ([-32602], [-32601])


def judge(feature: str, sight: Observed) -> bool:
    """Whether what was seen of a feature is what must be."""
    if obstacle(feature, sight.guest, sight.corner) is None:
        return WORKS[feature](sight)
    if feature in TOOLS and lack_of(sight.corner, feature):
        return _unknown(TOOLS[feature])(sight)
    return INSTEAD[feature](sight)
