"""A server that says exactly what it was told to say, and writes down every line it hears.

Started as `scripted_server.py SCRIPT LOG`. The script is JSON: `rules`, tried in order, and
`capabilities` for the handshake. A rule has

    on       a method, or `answer` for the answer to a question the server asked
    where    members that params (or the answer) must have, if any
    say      raw lines to write; `$id` and `$token` stand for the id and progress token of what
             was heard, `$name` for an id that an earlier rule kept under that name
    run      the only run of the script it is for: 1 is the first process, 2 the next
    keep     a name for the id of what was heard
    sleep    seconds to wait first
    until    a file to wait for first
    once     true for a rule that is used up by its first use
    exit     a code to end with afterwards
    stderr   a line for stderr

What no rule covers is answered as the plainest legacy server would. It knows nothing of the
gateway, and needs nothing but the standard library.
"""

import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]


class Server:
    """One run of a script."""

    def __init__(self, script: Json, run: int) -> None:
        self.rules: list[Json] = [rule for rule in script["rules"] if rule.get("run", run) == run]
        self.capabilities: Json = script["capabilities"]
        self.kept: dict[str, str] = {}

    def hear(self, message: Json) -> None:
        """Act on one message by the first rule that fits it."""
        topic = message.get("method", "answer")
        facts = message if topic == "answer" else message.get("params") or {}
        for rule in self.rules:
            if rule["on"] == topic and fits(rule.get("where", {}), facts):
                self.follow(rule, message)
                return
        if "method" in message and "id" in message:
            say(json.dumps({"jsonrpc": "2.0", "id": message["id"], **self.plain(message)}))

    def follow(self, rule: Json, message: Json) -> None:
        """Do what a rule says."""
        if rule.get("once"):
            self.rules.remove(rule)
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
        words = {
            **self.kept,
            "id": json.dumps(message.get("id")),
            "token": json.dumps(token),
        }
        if "keep" in rule:
            self.kept[rule["keep"]] = words["id"]
        time.sleep(rule.get("sleep", 0))
        while not os.path.exists(rule.get("until", os.curdir)):
            time.sleep(0.01)
        if "stderr" in rule:
            os.write(2, rule["stderr"].encode() + b"\n")
        for line in rule.get("say", ()):
            for name, value in words.items():
                line = line.replace(f"${name}", value)
            say(line)
        if "exit" in rule:
            os._exit(rule["exit"])

    def plain(self, message: Json) -> Json:
        """What a legacy server without any features answers."""
        if message["method"] == "initialize":
            return {
                "result": {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": self.capabilities,
                    "serverInfo": {"name": "scripted", "version": "1"},
                }
            }
        if message["method"] == "ping":
            return {"result": {}}
        return {"error": {"code": -32601, "message": f"Method not found: {message['method']}"}}


def fits(wanted: Json, facts: Any) -> bool:
    """Whether all wanted members are there."""
    return isinstance(facts, dict) and all(facts.get(key) == wanted[key] for key in wanted)


def say(line: str) -> None:
    """Write one line at once, also to a pipe that takes little at a time."""
    whole = line.encode() + b"\n"
    while whole:
        whole = whole[os.write(1, whole) :]


def main(script: str, log: str) -> None:
    """Serve stdin until it ends."""
    heard = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(heard, b"# started %d\n" % os.getpid())
    with open(script, encoding="utf-8") as file, open(log, "rb") as before:
        server = Server(json.load(file), before.read().count(b"# started"))
    for line in sys.stdin.buffer:
        os.write(heard, line)
        server.hear(json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
