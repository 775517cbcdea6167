"""What is sent again, what should come back, and how the conversation is opened for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from anyport import __version__
from anyport.protocol import meta
from anyport.protocol.method import QUESTIONS
from anyport.record.compare import ABSENT, Mode
from anyport.record.fixtures import Fixture
from anyport.wire import members

NAMED_BY: Final = ("name", "uri")
"""The members of params that say what a request is about."""

CLIENT_INFO: Final = msgspec.json.encode({"name": "anyport-replay", "version": __version__})

ABLE: Final[Mapping[str, Any]] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
}
"""What a client declares that can be asked these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A client's answer to a question of the server's, as it was recorded."""

    method: str
    answer: bytes
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One message that is sent again."""

    name: str
    """Of the exchange or of the file."""
    method: str
    params: bytes | None = None
    is_notification: bool = False
    expected: Any = ABSENT
    """An object with `result` or `error`."""
    mode: Mode = Mode.RECORDED
    answers: tuple[Said, ...] = ()
    """What the client said when it was asked something in between."""
    target: str = ""
    """What it is about, where its params were not recorded."""

    @property
    def subject(self) -> str:
        """The tool, prompt or resource that it is about."""
        found = {} if self.params is None else members.members(self.params)
        named = (members.string(found.get(member)) for member in NAMED_BY)
        return next((name for name in named if name), self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a client presents itself."""

    revision: str | None = None
    """None: whichever the two agree on."""
    capabilities: bytes = b"{}"
    client_info: bytes = CLIENT_INFO


@dataclass(slots=True, kw_only=True)
class Part:
    """Cases that belong to one conversation."""

    server: str = ""
    """Which server was asked."""
    opening: Opening = field(default_factory=Opening)
    cases: list[Case] = field(default_factory=list)


def case_of_fixture(fixture: Fixture) -> Case:
    """The case in a fixture."""
    return Case(
        name=fixture.name,
        method=fixture.method,
        params=fixture.params,
        is_notification=fixture.id is None,
        expected=fixture.expected,
        mode=fixture.mode,
    )


def opening_of(cases: Iterable[Case], revision: str | None = None) -> Opening:
    """How the client of these cases presented itself, as far as they tell."""
    cases = list(cases)
    greeting = next((case for case in cases if case.method == "initialize"), None)
    if greeting is not None:
        return read_opening(greeting.params)
    asked = {QUESTIONS[said.method] for case in cases for said in case.answers
             if said.method in QUESTIONS}  # fmt: skip
    return Opening(
        revision=next(filter(None, map(revision_of, cases)), revision),
        capabilities=msgspec.json.encode({kind: ABLE[kind] for kind in sorted(asked)}),
    )


def read_opening(params: bytes | None) -> Opening:
    """What the params of `initialize` say."""
    found = {} if params is None else members.members(params)
    capabilities, client = found.get("capabilities"), found.get("clientInfo")
    return Opening(
        revision=members.string(found.get("protocolVersion")),
        capabilities=b"{}" if capabilities is None else bytes(capabilities),
        client_info=CLIENT_INFO if client is None else bytes(client),
    )


def revision_of(case: Case) -> str | None:
    """The revision that a request says itself; None for one of a session."""
    about = members.members(case.params or b"{}").get("_meta")
    if about is None or bytes(about)[:1] != b"{":
        return None
    return members.string(members.members(about).get(meta.PROTOCOL_VERSION))
