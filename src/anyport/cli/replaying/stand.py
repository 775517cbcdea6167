"""Where requests are sent again: a server, or a gateway. A seam, and what all its kinds share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from anyport.cli.replaying.case import Opening, Said
from anyport.protocol import meta
from anyport.protocol.revision import Era, Revision
from anyport.upstream.call import Lost
from anyport.wire import codec, members
from anyport.wire.frame import METHOD_NOT_FOUND, Failure, Request, Result

Answer: TypeAlias = Result | Failure | Lost

TOOL_PAGES_MAX: Final = 100
"""Of the tools that are looked at before one is called."""

_TRACE: Final = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)


class Stand(Protocol):
    """One conversation."""

    @property
    def greeting(self) -> Answer | None:
        """How the handshake was answered, where there was one."""

    @property
    def is_gateway(self) -> bool:
        """Whether it is a gateway of ours that answers."""

    async def request(self, method: str, params: bytes | None, script: "Script") -> Answer:
        """Send a request, and answer what is asked meanwhile."""

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification."""


class Script:
    """What the client says when a server asks: what it said before, each answer once."""

    def __init__(self, answers: Sequence[Said] = ()) -> None:
        self._left = list(answers)

    def answer(self, request: Request) -> Result | Failure:
        """The answer to a question."""
        if request.method == "ping":
            return Result(request.id, b"{}")
        for said in self._left:
            if said.method == request.method:
                self._left.remove(said)
                if said.failed:
                    return Failure(request.id, said.answer)
                return Result(request.id, said.answer)
        words = f"Nobody answered {request.method} when this was recorded"
        return Failure(request.id, codec.error(METHOD_NOT_FOUND, words))


def prepared(
    params: bytes | None, revision: Revision | None, opening: Opening, token: bytes
) -> bytes | None:
    """A request's params as they can be sent now: with stamps of this conversation."""
    raw = params or b"{}"
    about = members.members(raw).get("_meta")
    known = members.members(about) if about is not None and bytes(about)[:1] == b"{" else {}
    changes: dict[str, bytes | None] = dict.fromkeys(_TRACE)
    if meta.PROGRESS_TOKEN in known:
        changes[meta.PROGRESS_TOKEN] = token
    if revision is not None and revision.era is Era.MODERN:
        changes[meta.PROTOCOL_VERSION] = members.text(revision.name)
        if meta.CLIENT_CAPABILITIES not in known:
            changes[meta.CLIENT_CAPABILITIES] = opening.capabilities
        if meta.CLIENT_INFO not in known:
            changes[meta.CLIENT_INFO] = opening.client_info
    else:
        changes |= dict.fromkeys(meta.REQUEST_KEYS)
    stamped = meta.restamp(raw, changes)
    return None if params is None and stamped == raw else stamped


async def tools_of(stand: Stand) -> Mapping[str, Mapping[str, Any]]:
    """The tools that are offered there, by name; none if it does not say."""
    found: dict[str, Mapping[str, Any]] = {}
    params: bytes | None = b"{}"
    for _ in range(TOOL_PAGES_MAX):
        answer = await stand.request("tools/list", params, Script())
        if not isinstance(answer, Result):
            break
        page = msgspec.json.decode(answer.result)
        for tool in page.get("tools") or ():
            found[str(tool.get("name"))] = tool
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            break
        params = msgspec.json.encode({"cursor": cursor})
    return found
