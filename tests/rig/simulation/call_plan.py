"""What a simulated call is going to be like, and how its traces are told apart.

A call carries a plan for the server in its arguments, and a nonce that names its client and
itself. The server repeats the nonce in everything it says about that call, so that wherever a
message goes astray, whoever gets it can tell.
"""

import re
from typing import Any, Final, Literal

import msgspec

Json = dict[str, Any]

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

Ending = Literal[
    "result", "error", "is-error", "never", "twice", "noise", "spoiled", "stray", "crash", "parting"
]
"""How a server ends a call: well, badly, not at all, twice, after noise, with half a frame, after
an answer that nobody asked for, by dying, or by dying right after its answer."""

Manner = Literal["accept", "decline", "error", "never", "late", "twice"]
"""How a client treats a question."""

NONCE: Final = re.compile(rb"n(\d+)-(\d+)\.")


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the server does about one call."""

    delay: float = 0.0
    """Seconds of work before it ends."""
    reports: int = 0
    """How often it reports progress."""
    pause: float = 0.0
    """Seconds between them, and between questions."""
    asks: tuple[str, ...] = ()
    """What it asks the client, one after the other."""
    ending: Ending = "result"


def nonce_of(client: int, number: int) -> str:
    """The nonce of a client's call."""
    return f"n{client}-{number}."


def question(method: str, nonce: str) -> Json:
    """The params of a question about a call."""
    if method == ELICIT:
        schema = {"type": "object", "properties": {"nonce": {"type": "string"}}}
        return {"message": nonce, "requestedSchema": schema}
    if method == SAMPLE:
        content = {"type": "text", "text": nonce}
        return {"messages": [{"role": "user", "content": content}], "maxTokens": 8}
    return {}


def answer(method: str, client: int, nonce: str | None, *, accept: bool) -> Json:
    """What a client answers; roots name only the client, for nobody says what they are for."""
    if method == ELICIT:
        return (
            {"action": "accept", "content": {"nonce": nonce}} if accept else {"action": "decline"}
        )
    if method == SAMPLE:
        content = {"type": "text", "text": nonce if accept else "no"}
        return {"role": "assistant", "content": content, "model": "sim"}
    return {"roots": [{"uri": f"file:///n{client}-0.", "name": "root"}]}


def nonces_in(raw: bytes) -> set[tuple[int, int]]:
    """Whose calls a message speaks of."""
    return {(int(client), int(number)) for client, number in NONCE.findall(raw)}
