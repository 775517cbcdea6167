"""Sessions that only come cost no process: what one needs for itself is opened by its calls."""

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from tests.harness import Message
from tests.journeys.http_gateway import serving
from tests.journeys.test_principals import KEEPING
from tests.rig.raw_http_client import RawHttpClient, request, tool_call

SESSIONS: Final = 12
ABLE: Final[Message] = {"elicitation": {}, "sampling": {}, "roots": {}}


def test_sessions_that_call_nothing_start_no_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    servers = {era: [sys.executable, KEEPING, era, str(started)] for era in ("legacy", "both")}

    def count() -> int:
        return len(started.read_text("utf-8").splitlines())

    with serving(tmp_path, servers) as site, ExitStack() as stack:
        port = int(site.netloc.rpartition(":")[2])
        visitors = [
            stack.enter_context(closing(RawHttpClient(port, None, **ABLE))) for _ in range(SESSIONS)
        ]
        lists = [visitor.send(request("tools/list")).messages[-1] for visitor in visitors]
        assert all(len(answer["result"]["tools"]) > 2 for answer in lists)
        # One for everybody, and of the legacy one another for a moment, to see what it has
        # for those whom it may ask.
        assert count() == len(servers) + 1

        for visitor in visitors[:2]:
            for id in (2, 3):
                answer = visitor.send(tool_call("legacy__tell", {}, id)).messages[-1]
                assert "result" in answer
        assert count() == len(servers) + 3
