"""What the protocol makes impossible: one table, and one sentence for each row.

A row says what a revision lacks, and what the caller gets where the server, or else the client,
is of such a revision. Whatever stands in no row has to work.
"""

from dataclasses import dataclass
from typing import Final

from tests.matrix.endpoints import Endpoint
from tests.matrix.features import AS_FILE, AS_TEXT, CLIENT_CANNOT_BE_ASKED, SERVER_CANNOT_ASK


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolLimit:
    """Why a feature is impossible, and what there is instead."""

    feature: str
    lacking: tuple[str, ...]
    """The revisions that do not have it."""
    side: str
    """Which of the two peers is of such a revision: `client` or `server`."""
    got: str
    """What the caller gets, in the words of the features."""
    sentence: str

    def applies(self, feature: str, client: Endpoint, server: Endpoint) -> bool:
        peer = client if self.side == "client" else server
        return feature == self.feature and peer.revision in self.lacking


RULES: Final = (
    ProtocolLimit(
        feature="elicitation form",
        lacking=("2024-11-05", "2025-03-26"),
        side="server",
        got=SERVER_CANNOT_ASK,
        sentence="A server of this revision has no elicitation: its tool cannot ask, and the "
        "caller gets what the tool answers without having asked.",
    ),
    ProtocolLimit(
        feature="elicitation form",
        lacking=("2024-11-05", "2025-03-26"),
        side="client",
        got=CLIENT_CANNOT_BE_ASKED,
        sentence="A client of this revision has no elicitation: the server learns that it cannot "
        "ask, and the caller gets a tool result with `isError` that names what is missing.",
    ),
    ProtocolLimit(
        feature="elicitation URL",
        lacking=("2024-11-05", "2025-03-26", "2025-06-18"),
        side="server",
        got=SERVER_CANNOT_ASK,
        sentence="A server of this revision has no elicitation by URL: its tool cannot ask, and "
        "the caller gets what the tool answers without having asked.",
    ),
    ProtocolLimit(
        feature="elicitation URL",
        lacking=("2024-11-05", "2025-03-26", "2025-06-18"),
        side="client",
        got=CLIENT_CANNOT_BE_ASKED,
        sentence="A client of this revision has no elicitation by URL: the server learns that it "
        "cannot ask, and the caller gets a tool result with `isError`, or an error where the "
        "server asked by an error, that names what is missing.",
    ),
    ProtocolLimit(
        feature="binary content",
        lacking=("2024-11-05",),
        side="server",
        got=AS_FILE,
        sentence="A server of this revision has no content for sound: it sends an embedded "
        "resource, and the caller gets that; pictures and binary resources arrive as they are.",
    ),
    ProtocolLimit(
        feature="binary content",
        lacking=("2024-11-05",),
        side="client",
        got=AS_FILE,
        sentence="A client of this revision has no content for sound: it gets an embedded resource "
        "with the same bytes; pictures and binary resources arrive as they are.",
    ),
    ProtocolLimit(
        feature="structured content",
        lacking=("2024-11-05", "2025-03-26"),
        side="server",
        got=AS_TEXT,
        sentence="A server of this revision has no structured content: the caller gets the text, "
        "which is all that the tool gives.",
    ),
    ProtocolLimit(
        feature="structured content",
        lacking=("2024-11-05", "2025-03-26"),
        side="client",
        got=AS_TEXT,
        sentence="A client of this revision has no structured content: it gets the text that the "
        "tool gives beside it.",
    ),
)


def rule_for(feature: str, client: Endpoint, server: Endpoint) -> ProtocolLimit | None:
    """Why a cell of the matrix cannot work; None if it has to."""
    return next((rule for rule in RULES if rule.applies(feature, client, server)), None)
