"""A server whose calls are lost in many ways, and who calls it."""

import json
from pathlib import Path
from typing import Any

from anyport.catalog.offers import Listing, Offer
from anyport.protocol.exchange import Failed
from anyport.protocol.methods import OfferKind
from anyport.upstream.pending_call import CallOutcome, NoAnswer, Retryable
from tests.gateway.fakes import Asked
from tests.gateway.scene import Scene
from tests.upstream.fakes import say

CUT = NoAnswer("it was cut off", outcome=CallOutcome.CONNECTION_LOST, retryable=Retryable.IF_SAFE)
BAD = NoAnswer("answered with HTTP 500", outcome=CallOutcome.BAD, retryable=Retryable.IF_SAFE)
UNSENT = NoAnswer("refused", outcome=CallOutcome.UNREACHABLE, retryable=Retryable.ALWAYS)
GONE = "Server 's' is not running: it was cut off"


class Trial(Scene):
    """A server whose tool `look` is read-only and whose tool `echo` says nothing of itself."""

    def __init__(self, path: Path, **config: Any) -> None:
        super().__init__(path, **config)
        look = b'{"name":"look","annotations":{"readOnlyHint":true}}'
        offers = (Offer("echo", b'{"name":"echo"}'), Offer("look", look))
        self.server.listings[OfferKind.TOOLS] = Listing(offers=offers)
        self.profile.refresh()

    def look(self, **params: Any) -> Asked:
        return self.begin(params={"name": "s__look", **params})

    def lose(self, lost: NoAnswer = CUT) -> None:
        """The call that was made last is lost."""
        self.server.connection.settle(self.server.channel.calls[-1], lost)

    def answer_last(self) -> None:
        say(self.server.connection, id=self.server.channel.sent[-1]["id"], result={"content": []})

    @property
    def tools(self) -> list[str]:
        """What the server was called for."""
        sent = self.server.channel.sent
        return [each["params"]["name"] for each in sent if each["method"] == "tools/call"]


def told(asked: Asked) -> Any:
    """What an error says besides its words."""
    (ending,) = asked.told
    assert isinstance(ending, Failed)
    return json.loads(ending.fault.data or b"")
