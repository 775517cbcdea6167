"""What this server asks its clients, in the words of each revision.

It decides what is asked, never how the question travels.
"""

from typing import Final

from anyport.demo.calls import Question
from anyport.demo.revisions import Json, Revision

CONSENT_URL: Final = "https://example.com/consent"


def form(revision: Revision) -> Question:
    """A short form with one field that must be filled in."""
    params: Json = {
        "message": "Who are you?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "minLength": 1},
                "colour": {"type": "string", "enum": ["red", "green", "blue"]},
                "subscribe": {"type": "boolean", "title": "Send me news"},
            },
            "required": ["name"],
        },
    }
    if not revision.elicitation_mode_named:
        return Question(
            key="elicit",
            method="elicitation/create",
            params=params,
            capability={"elicitation": {}},
        )
    return Question(
        key="elicit",
        method="elicitation/create",
        params={"mode": "form", **params},
        capability={"elicitation": {"form": {}}},
    )


def url(revision: Revision, elicitation_id: str) -> Question:
    """A page for the user to visit."""
    params: Json = {"mode": "url", "message": "Please agree on this page.", "url": CONSENT_URL}
    if revision.elicitation_ids:
        params["elicitationId"] = elicitation_id
    return Question(
        key="elicit",
        method="elicitation/create",
        params=params,
        capability={"elicitation": {"url": {}}},
    )


def sampling(prompt: str) -> Question:
    return Question(
        key="sample",
        method="sampling/createMessage",
        params={
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": 100,
        },
        capability={"sampling": {}},
    )


def roots() -> Question:
    return Question(key="roots", method="roots/list", params=None, capability={"roots": {}})
