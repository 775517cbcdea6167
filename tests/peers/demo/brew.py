"""The plan of a brew: how many cups, which events on the way, and how it ends."""

import msgspec

from tests.peers.demo import content
from tests.peers.demo.faults import Fault
from tests.peers.demo.revisions import Json

BROKEN = 4002
"""The code of the error that ends a brew that breaks; far from those that have a meaning."""


class Brew(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the tools that brew."""

    cups: int = 1
    ask: bool = False
    fail: bool = False
    broken: bool = False
    hold: bool = False

    def outcome(self, told: Json | None) -> Json | Fault:
        """How it ends, once every cup is filled and the client has answered what it was asked."""
        if self.broken:
            return Fault(BROKEN, "The kettle broke", {"cups": self.cups})
        if self.fail:
            return content.failure("The coffee is cold")
        blocks = [content.text(self.progress(self.cups))]
        if told is not None:
            blocks.append(content.text(msgspec.json.encode(told).decode()))
        return content.result(*blocks)

    def progress(self, filled: int) -> str:
        return f"{filled} of {self.cups} cups"
