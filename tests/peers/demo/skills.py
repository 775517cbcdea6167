"""A skill: a directory of two files, served one by one. No list of resources has them: a client
finds them through `skills/list`, or through the directory itself."""

import hashlib
from collections.abc import Mapping
from typing import Final

from tests.peers.demo.calls import Call
from tests.peers.demo.faults import INVALID_PARAMS, METHOD_NOT_FOUND, Fault, string_member
from tests.peers.demo.paging import page
from tests.peers.demo.revisions import Json

EXTENSION: Final = "io.modelcontextprotocol/skills"
SETTINGS: Final[Json] = {"directoryRead": True}
DIRECTORY_TYPE: Final = "inode/directory"
ROOT: Final = "skill://demo/tea"
SKILL: Final = f"{ROOT}/SKILL.md"

_FRONTMATTER: Final[Json] = {
    "name": "tea",
    "description": "How to make tea. Use it when somebody is thirsty.",
}
FILES: Final[Mapping[str, str]] = {
    SKILL: (
        f"---\nname: {_FRONTMATTER['name']}\ndescription: {_FRONTMATTER['description']}\n---\n\n"
        "Boil water, then follow [the leaves](references/leaves.md).\n"
    ),
    f"{ROOT}/references/leaves.md": "One spoon a cup, and three minutes.\n",
}


def read(uri: str) -> Json | None:
    """What a file of the skill holds; None where there is no such file."""
    text = FILES.get(uri)
    return None if text is None else {"uri": uri, "mimeType": "text/markdown", "text": text}


def list_skills(call: Call, params: Json) -> Json:
    _require(call)
    return page(call.server_state.options, "skills", [_entry()], params)


def get_skill(call: Call, params: Json) -> Json:
    _require(call)
    uri = string_member(params, "uri")
    if uri != SKILL:
        raise Fault(INVALID_PARAMS, f"No skill is served at {uri}")
    return {"skill": _entry()}


def read_directory(call: Call, params: Json) -> Json:
    _require(call)
    uri = string_member(params, "uri")
    below = [file.removeprefix(f"{uri}/") for file in FILES if file.startswith(f"{uri}/")]
    if not below:
        raise Fault(INVALID_PARAMS, f"{uri} is not a directory")
    children = {path.partition("/")[0]: _child(uri, path) for path in below}
    return page(call.server_state.options, "resources", list(children.values()), params)


def _require(call: Call) -> None:
    if not call.server_state.options.skills:
        raise Fault(METHOD_NOT_FOUND, f"Method not found: {call.request.method}")


def _entry() -> Json:
    return {
        "uri": SKILL,
        "frontmatter": _FRONTMATTER,
        "resources": [
            {"uri": uri, "digest": _digest(text), "size": len(text.encode())}
            for uri, text in FILES.items()
        ],
    }


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _child(directory: str, path: str) -> Json:
    name, inside, _ = path.partition("/")
    kind = DIRECTORY_TYPE if inside else "text/markdown"
    return {"uri": f"{directory}/{name}", "name": name, "mimeType": kind}
