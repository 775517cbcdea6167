"""Schemas that are made to hurt whoever looks at them closely. The gateway does not.

It never validates arguments, resolves no reference and runs no pattern of a server's: schemas pass
as they are, so that one that is slow, endless or points elsewhere costs its bytes and nothing more.
"""

import json
import socket
from contextlib import closing
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.scripted_http_server import ScriptedHttpServer, legacy, modern, tool
from tests.reliability.conftest import Serve
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import MIB, cpu_ticks, text_of
from tests.rig.raw_http_client import RawConnection, RawHttpClient, request
from tests.rig.raw_http_client import modern as modern_post
from tests.rig.scale import measured

pytestmark = pytest.mark.slow

TICKS_MAX: Final = 500
"""Processor time, in hundredths of a second, for ten rounds; one such pattern takes ages."""


def bomb(depth: int) -> Message:
    """Alternatives of alternatives: small to write down, endless to try."""
    schema: Message = {"type": "string"}
    for _ in range(depth):
        schema = {"anyOf": [schema, schema]} if depth < 12 else {"anyOf": [schema, {"not": schema}]}
    return schema


def schemas(elsewhere: int) -> dict[str, Message]:
    """What each tool says of its arguments; `elsewhere` is a port where nobody should come."""
    url = f"http://127.0.0.1:{elsewhere}/schema.json"

    def of(text: Any, **more: Any) -> Message:
        return {"type": "object", "properties": {"text": text}, **more}

    return {
        "slow_pattern": of({"type": "string", "pattern": "^(a+)+$"}),
        "slower_pattern": of({"pattern": "(x+x+)+y", "type": "string"}),
        "huge_pattern": of({"type": "string", "pattern": "(a|b)?" * (MIB // 6)}),
        "alternatives": of(bomb(11)),
        "itself": {"$ref": "#", "type": "object"},
        "its_own_part": of({"$ref": "#/properties/text"}),
        "elsewhere": of({"$ref": url}),
        "wholly_elsewhere": {"$ref": url, "$schema": url, "$id": url, "type": "object"},
        "a_file": of({"$ref": "file:///etc/passwd"}),
        "nowhere": of({"$ref": "#/$defs/none"}),
        "another_dialect": of({}, **{"$schema": "http://json-schema.org/draft-03/schema#"}),
        "no_dialect": of({"type": "texty", "minLength": -1}, **{"$schema": "urn:none"}),
        "deep": of(json.loads('{"not":' * 60 + "{}" + "}" * 60)),
    }


@pytest.mark.parametrize("era", [modern, legacy])
def test_schemas_pass_as_they_are_and_nobody_goes_where_they_point(serve: Serve, era: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        wanted = schemas(elsewhere.getsockname()[1])
        tools = [tool("fine"), *(tool(name, schema) for name, schema in wanted.items())]
        answer = fine(nothing_else)

        def call(heard: Any, back: Any) -> None:
            if heard.method == "tools/call" and heard.message["params"]["name"] in wanted:
                content = [{"type": "text", "text": "called"}]
                back.result(heard, {"resultType": "complete", "content": content})
            else:
                answer(heard, back)

        with (
            ScriptedHttpServer(era(call, *tools)) as web,
            serve({"odd": {"url": web.url}}, gateway={"listSeconds": 30}) as there,
            closing(RawHttpClient(there.port)) as visitor,
            RawConnection(there.port) as wire,
        ):
            there.growth_bytes_max += 8 * MIB  # What the schemas themselves take up.
            visitor.send(request("tools/list"))
            spent = cpu_ticks(there.pid)
            for _ in range(10):
                for reply in (
                    visitor.send(request("tools/list")),
                    wire.ask(modern_post(request("tools/list"))),
                ):
                    listed = {each["name"]: each for each in reply.message["result"]["tools"]}
                    for name, schema in wanted.items():
                        assert listed[f"odd__{name}"]["inputSchema"] == schema, name
                for name in wanted:
                    text = "a" * 40 + "!"
                    assert text_of(visitor.call(f"odd__{name}", text=text)) == "called"
                    there.calls_owed += 1
            spent = cpu_ticks(there.pid) - spent
            measured(ticks=spent)
            assert spent < TICKS_MAX
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
