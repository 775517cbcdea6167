"""A server that tells byte for byte what reached it, and says byte for byte what it is told to.

Whoever calls it puts the words into the params, as members that the protocol does not know:

    "reply": {…}     the members of the result, after those that tell what reached the server
    "fail": {…}      instead of a result: this error
    "notices": [[method, {…}], …]     notifications that come before the answer, where "$TOKEN"
                                      stands for the progress token that the server got

It has no use for the meaning of any of them: they are cut from the line and written as they are.
"""

import hashlib
import json
import sys

WELCOME = (
    '{"protocolVersion":"2025-11-25","serverInfo":{"name":"verbatim","version":"1"},'
    '"capabilities":{"tools":{},"prompts":{},"resources":{},"logging":{},"completions":{}}}'
)
SCAN = json.JSONDecoder(strict=False).raw_decode


def main() -> None:
    for line in sys.stdin.buffer:
        message = members(line.decode())
        if "id" in message:
            answer(message["id"], json.loads(message["method"]), message.get("params", "{}"))


def answer(id: str, method: str, params: str) -> None:
    if method == "initialize":
        say(f'"id":{id},"result":{WELCOME}')
    elif method.endswith("/list"):
        kind = "resourceTemplates" if "templates" in method else method.removesuffix("/list")
        tool = '{"name":"tool"}' if kind == "tools" else ""
        say(f'"id":{id},"result":{{"{kind}":[{tool}]}}')
    else:
        perform(id, params)


def perform(id: str, params: str) -> None:
    told = members(params)
    token = members(told.get("_meta", "{}")).get("progressToken", "null")
    for notice in items(told.get("notices", "[]")):
        method, about = items(notice)
        about = about.replace('"$TOKEN"', token)
        say(f'"method":{method},"params":{about}')
    if "fail" in told:
        say(f'"id":{id},"error":{told["fail"]}')
        return
    digest = hashlib.sha256(params.encode()).hexdigest()
    reply = told.get("reply", "{}")
    more = ("," if members(reply) else "") + reply[1:-1]
    say(f'"id":{id},"result":{{"digest":"{digest}","received":{params}{more}}}')


def say(rest: str) -> None:
    sys.stdout.buffer.write(f'{{"jsonrpc":"2.0",{rest}}}\n'.encode())
    sys.stdout.buffer.flush()


def members(text: str) -> dict[str, str]:
    """The members of an object, values as they stand in the text."""
    found: dict[str, str] = {}
    at = skip(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = SCAN(text, at)
        at = skip(text, skip(text, at) + 1)
        _, end = SCAN(text, at)
        found[name] = text[at:end]
        at = after_comma(text, end)
    return found


def items(text: str) -> list[str]:
    """The items of an array, as they stand in the text."""
    found: list[str] = []
    at = skip(text, 1)
    while text[at] != "]":
        _, end = SCAN(text, at)
        found.append(text[at:end])
        at = after_comma(text, end)
    return found


def after_comma(text: str, at: int) -> int:
    at = skip(text, at)
    return skip(text, at + 1) if text[at] == "," else at


def skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


if __name__ == "__main__":
    main()
