"""Clients that all use the same ids and tokens, on servers that they share: nothing crosses."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import pytest

from tests.harness import DEMO, WAIT_SECONDS, Message
from tests.reliability.conftest import Serve
from tests.reliability.probe import text_of
from tests.reliability.visitors import Hangup, Visitor, Wire, head, modern, post, tool_call

pytestmark = pytest.mark.slow

CLIENTS: Final = 50  # In full 200.
ROUNDS: Final = 20  # Five calls each; in full 10^6 calls altogether.
CALLS_A_ROUND: Final = 5
PEOPLE: Final = 5
"""Tokens; clients of one person share them."""
TOKENS: Final = {f"person{number}": f"token-{number}-2b7e151628aed2a6" for number in range(PEOPLE)}


@contextmanager
def on_the_web(*options: str) -> Iterator[str]:
    """The demo server over HTTP; its URL."""
    argv = [*DEMO, "--http", "0", *options]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+", process.stderr.readline().decode())
            assert found
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            drain.start()
            yield found[0]
        finally:
            process.kill()
            drain.join(WAIT_SECONDS)


class Legacy:
    """A client with a session, which answers questions with its own nonce."""

    servers = ("pipe", "web", "old")

    def __init__(self, port: int, number: int) -> None:
        name = f"person{number % PEOPLE}"
        self.number = number
        self.visitor = Visitor(port, {"Authorization": f"Bearer {TOKENS[name]}"}, sampling={})

    def ask(self, message: Message, nonce: str) -> list[Message]:
        """Everything that comes before the answer, and the answer."""
        wire = self.visitor.wire
        wire.send(post(message, self.visitor.fields))
        _, status, fields = wire.head()
        assert status == 200, status
        if "content-length" in dict(fields):
            return [json.loads(wire.take(int(dict(fields)["content-length"])))]
        told = []
        for each in wire.events():
            if each.get("method") == "sampling/createMessage":
                self.visitor.tell({"jsonrpc": "2.0", "id": each["id"], "result": sampled(nonce)})
            told.append(each)
        return told

    def close(self) -> None:
        """End the session, too: it may have a connection, and a process, of its own."""
        ended = self.visitor.wire.ask(head("DELETE", "/mcp", self.visitor.fields))
        assert ended.status == 200, ended
        self.visitor.close()


class Modern:
    """A client without one."""

    servers = ("pipe", "web")

    def __init__(self, port: int, number: int) -> None:
        name = f"person{number % PEOPLE}"
        self.number = number
        self.wire = Wire(port)
        self.fields = {"Authorization": f"Bearer {TOKENS[name]}"}

    def ask(self, message: Message, nonce: str) -> list[Message]:
        """The same."""
        about = {
            **message["params"].get("_meta", {}),
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
            "io.modelcontextprotocol/logLevel": "debug",
        }
        params = {**message["params"], "_meta": about}
        told = self.wire.ask(modern({**message, "params": params}, self.fields)).messages
        result = told[-1].get("result", {})
        if result.get("resultType") != "input_required":
            return told
        asked = result["inputRequests"]
        again = {
            **params,
            "inputResponses": {key: sampled(nonce) for key in asked},
            "requestState": result["requestState"],
        }
        reply = self.wire.ask(modern({**message, "params": again}, self.fields))
        return [*asked.values(), *reply.messages]

    def close(self) -> None:
        self.wire.close()


def sampled(nonce: str) -> Message:
    content = {"type": "text", "text": f"answer {nonce}"}
    return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}


def take_a_round(client: Legacy | Modern, turn: int) -> None:
    """One call of each kind; whatever comes must be about this client's own nonce."""
    nonce = f"nonce-{client.number}-{turn}-"
    ids = iter(range(turn * CALLS_A_ROUND, (turn + 1) * CALLS_A_ROUND))
    for server in ("pipe", "web"):
        message = tool_call(f"{server}__echo", {"text": nonce}, next(ids))
        answer = client.ask(message, nonce)[-1]
        assert (answer["id"], text_of(answer)) == (message["id"], nonce)
    steps = client.number + 1
    slow = tool_call("web__slow", {"seconds": 0, "steps": steps}, next(ids), progressToken="same")
    *told, answer = client.ask(slow, nonce)
    assert (answer["id"], text_of(answer)) == (slow["id"], f"Done after {steps} steps.")
    progress = [each["params"] for each in told if each["method"] == "notifications/progress"]
    assert [each["total"] for each in progress] == [steps] * steps
    assert {each["progressToken"] for each in progress} == {"same"}
    # Which call a log belongs to is not always known; then nobody gets it but who is its one user.
    log = tool_call(
        f"{client.servers[turn % 2]}__log", {"level": "error", "text": nonce}, next(ids)
    )
    *told, answer = client.ask(log, nonce)
    assert answer["id"] == log["id"]
    assert {each["params"]["data"] for each in told} <= {nonce}
    server = client.servers[turn % len(client.servers)]
    sample = tool_call(f"{server}__sample", {"prompt": nonce}, next(ids))
    *told, answer = client.ask(sample, nonce)
    asked = [each for each in told if each["method"] == "sampling/createMessage"]
    assert [each["params"]["messages"][0]["content"]["text"] for each in asked] == [nonce]
    assert f"answer {nonce}" in text_of(answer)


def test_clients_with_the_same_ids_never_get_what_belongs_to_another(serve: Serve) -> None:
    failures: list[Any] = []
    with ExitStack() as stack:
        web = stack.enter_context(on_the_web())
        old = stack.enter_context(on_the_web("--legacy-only"))
        servers = {"pipe": DEMO, "web": {"url": web}, "old": {"url": old}}
        there = stack.enter_context(serve(servers, tokens=True, gateway={"tokens": TOKENS}))

        def live(number: int) -> None:
            kind = Legacy if number % 2 else Modern
            try:
                with closing(kind(there.port, number)) as client:
                    for turn in range(ROUNDS):
                        take_a_round(client, turn)
            except (AssertionError, Hangup, KeyError, OSError, ValueError) as error:
                failures.append((kind, error))

        threads = [threading.Thread(target=live, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10 * WAIT_SECONDS)
            assert not thread.is_alive()
        assert failures == []
        there.calls_owed += CLIENTS * ROUNDS * CALLS_A_ROUND
