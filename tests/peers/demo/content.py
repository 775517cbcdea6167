"""Content blocks of tool results and prompts, with replacements for those that a revision lacks."""

from tests.peers.demo.media import PNG_BASE64, WAV_BASE64
from tests.peers.demo.revisions import Json, Revision


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def image() -> Json:
    return {"type": "image", "data": PNG_BASE64, "mimeType": "image/png"}


def audio(revision: Revision) -> Json:
    if "audio" in revision.content:
        return {"type": "audio", "data": WAV_BASE64, "mimeType": "audio/wav"}
    return embedded({"uri": "demo://click", "mimeType": "audio/wav", "blob": WAV_BASE64})


def embedded(contents: Json) -> Json:
    return {"type": "resource", "resource": contents}


def link(revision: Revision, resource: Json) -> Json:
    return {"type": "resource_link", **revision.trim("resource", resource)}


def result(*blocks: Json) -> Json:
    return {"content": list(blocks)}


def failure(words: str) -> Json:
    """A result that says that the tool failed, for the model to read."""
    return {"content": [text(words)], "isError": True}


def structured(revision: Revision, words: str, value: Json) -> Json:
    """A result in words, and as a value where the revision has a place for it."""
    plain = result(text(words))
    if revision.structured:
        plain["structuredContent"] = value
    return plain
