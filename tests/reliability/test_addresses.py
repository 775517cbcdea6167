"""Addresses that a person is to be asked to open: none that leads anywhere else is passed on.

In every way in which they can come, from servers of either era, to clients of either era.
"""

import json
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.clients import META, ModernClient, SessionClient
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, modern
from tests.rig.small_servers import MINIMAL, python

pytestmark = pytest.mark.slow

MARK: Final = "do-not-open-me"
BAD: Final = (
    f"javascript:alert('{MARK}')",
    f"JaVaScRiPt:alert('{MARK}')",
    f"java\tscript:alert('{MARK}')",
    f" javascript:alert('{MARK}')",
    f"data:text/html,{MARK}",
    f"file:///etc/{MARK}",
    f"ftp://example.com/{MARK}",
    f"vbscript:{MARK}",
    f"blob:https://example.com/{MARK}",
    f"view-source:https://example.com/{MARK}",
    f"ms-settings:{MARK}",
    f"//example.com/{MARK}",
    f"/{MARK}",
    MARK,
    f"http://example.com/{MARK}",
    f"https://user:secret@example.com/{MARK}",
    f"https://example.com\\@10.0.0.1/{MARK}",
    f"https://10.0.0.1/{MARK}",
    f"https://172.16.3.4/{MARK}",
    f"https://192.168.1.1/{MARK}",
    f"http://169.254.169.254/latest/meta-data/{MARK}",
    f"https://100.64.0.1/{MARK}",
    f"https://0.0.0.0/{MARK}",
    f"https://224.0.0.1/{MARK}",
    f"https://[fe80::1]/{MARK}",
    f"https://[fd00::1]/{MARK}",
    f"https://[::ffff:10.0.0.1]/{MARK}",
    f"https://0x0a000001/{MARK}",
    f"https://167772161/{MARK}",
    f"https://10.1/{MARK}",
    f"https://intranet/{MARK}",
    f"https://wiki.internal/{MARK}",
    f"https://printer.local/{MARK}",
    f"https://router.home.arpa/{MARK}",
    f"https://wiki.corp./{MARK}",
    f"https://example.com:99999/{MARK}",
    f"https:///{MARK}",
    f"https://exämple.internal/{MARK}",
    "https://example.com/" + MARK * 1000,
)
GOOD: Final = f"https://example.com/{MARK}"

ABLE: Final[Message] = {"elicitation": {"form": {}, "url": {}}}
CAPABILITIES: Final = f"{META}clientCapabilities"

ASKER: Final = (
    MINIMAL
    + """
def use(message):
    given = message["params"]["arguments"]
    elicitation = {"mode": "url", "message": "Please", "elicitationId": "e", "url": given["url"]}
    if given["way"] == "error":
        data = {"elicitations": [elicitation]}
        answer(message, error={"code": -32042, "message": "Open this", "data": data})
        return
    asked = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": elicitation}
    os.write(1, json.dumps(asked).encode() + b"\\n")
    for line in sys.stdin:
        reply = json.loads(line)
        if reply.get("id") == "q":
            break
    say(message, "refused" if "error" in reply else json.dumps(reply["result"]))

serve(["open"], use)
"""
)
"""A legacy server that wants an address opened: it asks, or fails with an error that says so."""


def newer(heard: ReceivedRequest, back: Reply) -> None:
    """A modern server that wants the same."""
    params = heard.message.get("params", {})
    given = params.get("arguments")
    if heard.method != "tools/call":
        back.error(heard, -32601, "Method not found")
    elif "inputResponses" in params:
        words = json.dumps(params["inputResponses"]["k"])
        content = [{"type": "text", "text": words}]
        back.result(heard, {"resultType": "complete", "content": content})
    elif given["way"] == "error":
        entry = {"mode": "url", "message": "Please", "elicitationId": "e", "url": given["url"]}
        error = {"code": -32042, "message": "Open this", "data": {"elicitations": [entry]}}
        back.json({"id": heard.id, "error": error}, 400)
    else:
        asked = {"mode": "url", "message": "Please", "url": given["url"]}
        wanted = {"k": {"method": "elicitation/create", "params": asked}}
        back.result(heard, {"resultType": "input_required", "inputRequests": wanted})


def told_to_modern(site: HttpGateway, message: Message) -> tuple[list[Message], list[Message]]:
    """All that a client without a session gets, and what it is asked; it agrees to everything."""
    client = ModernClient(site, **{CAPABILITIES: ABLE})
    answer = client.request("tools/call", message)
    result = answer.get("result", {})
    asked = result.get("inputRequests", {})
    told = [answer, *client.seen]
    if asked:
        answers = {key: {"action": "accept"} for key in asked}
        back = {"inputResponses": answers, "requestState": result["requestState"]}
        told.append(client.request("tools/call", {**message, **back}))
    return told, list(asked.values())


def told_to_session(
    session: SessionClient, message: Message
) -> tuple[list[Message], list[Message]]:
    """The same for a client with one."""
    asked, answer = [], session.start("tools/call", message)
    for each in answer.messages():
        if "method" in each and "id" in each:
            asked.append(each)
            session.reply(each, {"action": "accept"})
    return answer.seen, asked


@pytest.mark.parametrize("client", ["2026-07-28", "2025-11-25", "2025-06-18"])
def test_no_address_is_passed_on_that_is_none_to_open(tmp_path: Path, client: str) -> None:
    with ScriptedHttpServer(modern(newer, "open")) as web:
        servers: dict[str, Any] = {"old": python(ASKER), "new": {"url": web.url}}
        with serving(tmp_path, servers) as site:
            if client == "2026-07-28":
                ask = partial(told_to_modern, site)
            else:
                ask = partial(told_to_session, SessionClient(site, client, ABLE))
            for server, way in product(("old", "new"), ("ask", "error")):
                for url in BAD:
                    arguments = {"way": way, "url": url}
                    told, asked = ask({"name": f"{server}__open", "arguments": arguments})
                    assert not asked, (server, way, url)
                    assert MARK not in json.dumps(told), (server, way, url, told)
                arguments = {"way": way, "url": GOOD}
                told, asked = ask({"name": f"{server}__open", "arguments": arguments})
                urls = [each["params"]["url"] for each in asked] or GOOD in json.dumps(told)
                assert urls == expected(client, way), (server, way, told)


def expected(client: str, way: str) -> Any:
    """What becomes of an address that may be opened: the question, or whether an error has it."""
    if client == "2025-06-18":
        return False  # There is no elicitation by URL in it, nor that error.
    return True if way == "error" and client == "2025-11-25" else [GOOD]
