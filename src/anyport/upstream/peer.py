"""What a server said of itself when the channel was opened."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from anyport.protocol.back import Back
from anyport.protocol.revision import Revision
from anyport.wire import members


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a server said of itself when the channel was opened."""

    revision: Revision
    capabilities: dict[str, msgspec.Raw]
    back: Back
    server_info: bytes = b"{}"
    instructions: str | None = None
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    """Of those it declared, the ones that we know, with their settings."""

    def offers(self, capability: str, flag: str | None = None) -> bool:
        """Whether it declared a capability, and a flag of it."""
        declared = self.capabilities.get(capability)
        if declared is None or flag is None:
            return declared is not None
        try:
            return members.members(declared).get(flag) == msgspec.Raw(b"true")
        except msgspec.DecodeError:
            return False
