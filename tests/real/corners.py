"""Every SDK as a client and every SDK as a server: who meets whom, and what cannot be.

A *corner* is a server on one SDK and one transport, a *guest* a client on one SDK that comes over
one. A guest takes the same steps at each corner it visits. Where a feature cannot be between two of
them, `obstacle` says why. What must be seen of the others is in `expectations.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.real import rig

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN: Final = REVISIONS[-1]
OLD: Final[Mapping[str, str]] = {
    "py1-6": "2024-11-05",
    "py1-9": "2025-03-26",
    "py1-12": "2025-06-18",
    "ts1-0": "2024-11-05",
}
"""The newest revision of those SDKs that know neither of the last two."""
TWO_ERAS: Final = ("py2", "fm", "ts2")
SINCE: Final[Mapping[str, str]] = {
    "audio": "2025-03-26",
    "structured": "2025-06-18",
    "link": "2025-06-18",
    "form": "2025-06-18",
    "url": "2025-11-25",
    "url error": "2025-11-25",
}
"""The revision that brought a feature; the others are as old as the protocol."""
TOOLS: Final[Mapping[str, str]] = {
    "form": "ask",
    "url": "visit",
    "url error": "detour",
    "audio": "speak",
    "link": "point",
}
"""The tools that a server cannot have whose SDK does not know the feature."""

UPDATED: Final = "notifications/resources/updated"
CHANGED: Final = "notifications/tools/list_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corner:
    """A server."""

    sdk: str
    transport: str

    @property
    def slug(self) -> str:
        return f"{self.sdk}-{self.transport}"

    @property
    def revision(self) -> str:
        """The newest that it speaks with the gateway; nobody is modern over HTTP+SSE."""
        newest = MODERN if self.sdk in TWO_ERAS and self.transport != "sse" else "2025-11-25"
        return OLD.get(self.sdk, newest)

    @property
    def note(self) -> str:
        return f"note://{self.slug}/counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A client, and how it comes to the gateway."""

    sdk: str
    transport: str

    @property
    def client(self) -> str:
        """Its name in the rig. To ask for the era, `ts2` would start the gateway twice."""
        if self.sdk in TWO_ERAS and self.transport == "sse":
            return f"{self.sdk}-legacy"
        return "ts2-modern" if (self.sdk, self.transport) == ("ts2", "stdio") else self.sdk

    @property
    def revision(self) -> str:
        return Corner(sdk=self.sdk, transport=self.transport).revision

    @property
    def tool(self) -> str:
        """The one that servers add for it."""
        return f"add_{self.sdk}_{self.transport}"


GUESTS: Final = tuple(
    Guest(sdk=sdk, transport=transport)
    for sdk, transports in {**rig.CORNERS, "ts2": ("stdio", "sse", "http")}.items()
    for transport in transports
)
"""Every SDK over every transport it can; as a client the last TypeScript SDK can all three."""


TURNS: Final = 6
"""After so many guests the servers are on the same transports again: they have two, or three."""


def turn_of(guest: Guest) -> int:
    """Which servers a guest meets."""
    return GUESTS.index(guest) % TURNS


def corners_of(turn: int) -> list[Corner]:
    """One server on every SDK; the next guest finds each on its next transport."""
    return [
        Corner(sdk=sdk, transport=transports[(turn + place) % len(transports)])
        for place, (sdk, transports) in enumerate(rig.CORNERS.items())
    ]


def obstacle(feature: str, guest: Guest, corner: Corner) -> str | None:
    """Why a feature cannot be between these two; none if it can."""
    lack = lack_of(corner, feature)
    if lack is not None:
        return lack
    if _is_before(guest.revision, feature):
        return f"revision {guest.revision}, which the client speaks, does not know it"
    modern = spoken(guest, corner) == MODERN
    match feature, corner.sdk:
        case "cancel", "py1-6" | "py1-9":
            return "a server on this SDK dies of a cancellation, and has to be started again"
        case "list change", "fm" if modern:
            return "FastMCP has no stream on which to tell it to a modern client"
        case "subscription", "fm":
            return "nobody can subscribe to resources of FastMCP"
        case "subscription", "py2" if not modern:
            # A gateway over HTTP has a modern connection to the same process, if that has a URL.
            if corner.transport != "http" or guest.transport == "stdio":
                return "this SDK announces changes of resources to modern clients only"
    return None


def lack_of(corner: Corner, feature: str) -> str | None:
    """Why a server cannot offer a feature to anybody; none if it can."""
    if _is_before(corner.revision, feature):
        return f"revision {corner.revision}, which the server speaks, does not know it"
    if feature == "url error" and corner.sdk in TWO_ERAS:
        return "a server on an SDK of both eras asks instead"
    return None


def _is_before(revision: str, feature: str) -> bool:
    since = SINCE.get(feature, REVISIONS[0])
    return REVISIONS.index(revision) < REVISIONS.index(since)


def spoken(guest: Guest, corner: Corner) -> str:
    """The revision in which the gateway calls a server for this guest.

    It shakes hands with a server of both eras for a legacy client that can be asked, if that gives
    it a session: `ts2` keeps none over HTTP.
    """
    if corner.revision == MODERN != guest.revision and corner.slug != "ts2-http":
        return "2025-11-25"
    return corner.revision


def hello() -> dict[str, rig.Step]:
    """The first steps of a guest, by name."""
    return {
        "tools": {"do": "list", "what": "tools"},
        "resources": {"do": "list", "what": "resources"},
        "prompts": {"do": "list", "what": "prompts"},
        "listen": {"do": "listen"},
        "level": {"do": "log_level", "level": "info"},
    }


def steps_at(corner: Corner, guest: Guest, mark: Path) -> dict[str, rig.Step]:
    """The steps of a guest at one corner, by name. The mark is left by what was cancelled."""

    def call(name: str, /, **arguments: object) -> dict[str, Any]:
        return {"do": "call", "name": f"{corner.slug}__{name}", "arguments": arguments}

    greet = f"{corner.slug}__greet"
    ref = {"type": "ref/prompt", "name": greet}
    asking = ("think", "look", "ask", "visit")
    steps: dict[str, rig.Step] = {
        "add": call("add", a=1, b=2),
        "fail": call("fail"),
        "count": call("count", to=2) | {"progress": True},
        **{tool: call(tool) for tool in (*asking, "shout", "draw", "speak", "point")},
        "detour": call("detour", mark=f"{mark}-detour"),
        "detour again": call("detour", mark=f"{mark}-detour"),
        "bytes": {"do": "read", "uri": f"note://{corner.slug}/bytes"},
        "greet": {"do": "prompt", "name": greet, "arguments": {"name": "Ada"}},
        "complete": {"do": "complete", "ref": ref, "argument": {"name": "name", "value": "A"}},
        "subscribe": {"do": "subscribe", "uri": corner.note},
        "change": call("change", tool=guest.tool),
    }
    if obstacle("subscription", guest, corner) is None:
        steps["updated"] = {"do": "wait", "method": UPDATED, "uri": corner.note}
    if obstacle("list change", guest, corner) is None:
        new = f"{corner.slug}__{guest.tool}"
        steps["changed"] = {"do": "wait", "method": CHANGED, "tool": new}
    if corner.slug != "py1-9-http":  # Nobody would start that one again.
        steps["hang"] = call("hang", mark=str(mark)) | {"cancel": True}
    # A server that dies of a cancellation does so when the next message comes.
    dies = obstacle("cancel", guest, corner) is not None
    steps["ended"] = call("add", a=0, b=0) if dies else call("how_it_ended", mark=str(mark))
    return steps


def goodbye(corner: Corner) -> rig.Step:
    """The last step of a guest at a corner, when it has been at all the others."""
    return {"do": "call", "name": f"{corner.slug}__add", "arguments": {"a": 3, "b": 4}}
