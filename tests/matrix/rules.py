"""What the protocol makes impossible: one table, and one sentence for each row.

A row says what a revision lacks, and what the caller gets where the server, or else the client,
is of such a revision. Whatever stands in no row has to work.
"""

from dataclasses import dataclass
from typing import Final

from tests.matrix.features import (
    AS_FILE,
    AS_TEXT,
    CLIENT_CANNOT_BE_ASKED,
    SERVER_CANNOT_ASK,
)
from tests.matrix.ways import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Why a feature is impossible, and what there is instead."""

    feature: str
    lacking: tuple[str, ...]
    """The revisions that do not have it."""
    side: str
    """Which of the two parties is of such a revision: `client` or `server`."""
    got: str
    """What the caller gets, in the words of the features."""
    sentence: str

    def applies(self, feature: str, client: Way, server: Way) -> bool:
        party = client if self.side == "client" else server
        return feature == self.feature and party.revision in self.lacking


RULES: Final = (
    Rule(
        feature="elicitation form",
        lacking=("2024-11-05", "2025-03-26"),
        side="server",
        got=SERVER_CANNOT_ASK,
        sentence="A server of this revision has no elicitation: its tool cannot ask, and the "
        "caller gets what the tool answers without having asked.",
    ),
    Rule(
        feature="elicitation form",
        lacking=("2024-11-05", "2025-03-26"),
        side="client",
        got=CLIENT_CANNOT_BE_ASKED,
        sentence="A client of this revision has no elicitation: the server learns that it cannot "
        "ask, and the caller gets a tool result with `isError` that names what is missing.",
    ),
    Rule(
        feature="elicitation URL",
        lacking=("2024-11-05", "2025-03-26", "2025-06-18"),
        side="server",
        got=SERVER_CANNOT_ASK,
        sentence="A server of this revision has no elicitation by URL: its tool cannot ask, and "
        "the caller gets what the tool answers without having asked.",
    ),
    Rule(
        feature="elicitation URL",
        lacking=("2024-11-05", "2025-03-26", "2025-06-18"),
        side="client",
        got=CLIENT_CANNOT_BE_ASKED,
        sentence="A client of this revision has no elicitation by URL: the server learns that it "
        "cannot ask, and the caller gets a tool result with `isError`, or an error where the "
        "server asked by an error, that names what is missing.",
    ),
    Rule(
        feature="binary content",
        lacking=("2024-11-05",),
        side="server",
        got=AS_FILE,
        sentence="A server of this revision has no content for sound: it sends an embedded "
        "resource, and the caller gets that; pictures and binary resources arrive as they are.",
    ),
    Rule(
        feature="binary content",
        lacking=("2024-11-05",),
        side="client",
        got=AS_FILE,
        sentence="A client of this revision has no content for sound: it gets an embedded resource "
        "with the same bytes; pictures and binary resources arrive as they are.",
    ),
    Rule(
        feature="structured content",
        lacking=("2024-11-05", "2025-03-26"),
        side="server",
        got=AS_TEXT,
        sentence="A server of this revision has no structured content: the caller gets the text, "
        "which is all that the tool gives.",
    ),
    Rule(
        feature="structured content",
        lacking=("2024-11-05", "2025-03-26"),
        side="client",
        got=AS_TEXT,
        sentence="A client of this revision has no structured content: it gets the text that the "
        "tool gives beside it.",
    ),
)


def rule_for(feature: str, client: Way, server: Way) -> Rule | None:
    """Why a cell of the matrix cannot work; None if it has to."""
    return next((rule for rule in RULES if rule.applies(feature, client, server)), None)
