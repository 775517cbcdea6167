"""What the server asks its clients, in each revision."""

from typing import Final

from tests.peers.demo.calls import Question
from tests.peers.demo.revisions import Json, Revision

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
    return _form(revision, "elicit", params)


def sugar(revision: Revision) -> Question:
    """A form with one field, which must be filled in."""
    params: Json = {
        "message": "Sugar?",
        "requestedSchema": {
            "type": "object",
            "properties": {"sugar": {"type": "boolean", "title": "With sugar"}},
            "required": ["sugar"],
        },
    }
    return _form(revision, "sugar", params)


def about(revision: Revision, whom: str, text: str) -> Question | None:
    """A question with a text of the caller's in it, where it has any; None if nobody is asked."""
    if whom == "model":
        return sampling(text)
    if whom == "roots":
        return roots()
    if whom == "nobody":
        return None
    properties: Json = {"answer": {"type": "string"}}
    schema: Json = {"type": "object", "properties": properties, "required": ["answer"]}
    return _form(revision, "consult", {"message": text, "requestedSchema": schema})


def _form(revision: Revision, key: str, params: Json) -> Question:
    if not revision.elicitation_mode_named:
        return Question(
            key=key,
            method="elicitation/create",
            params=params,
            capability={"elicitation": {}},
        )
    return Question(
        key=key,
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
