"""What a server said of itself in its handshake."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from anyport.protocol.adapters.server import ServerAdapter
from anyport.protocol.capabilities import SERVER_CAPABILITIES
from anyport.protocol.revisions import Revision
from anyport.wire import raw_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A server's revision, capabilities and identity, as of its handshake."""

    revision: Revision
    capabilities: dict[str, msgspec.Raw]
    adapter: ServerAdapter
    server_info: bytes = b"{}"
    instructions: str | None = None
    handshake_result: bytes = b"{}"
    """The whole result of the handshake."""
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    """Declared extensions that the gateway knows, with their settings."""

    @property
    def offered_capabilities(self) -> frozenset[str]:
        """The capabilities it declared, as `name` and `name.flag`."""
        found = {name for name in SERVER_CAPABILITIES if self.offers(*name.split("."))}
        if not self.revision.completions_capability and found & {"prompts", "resources"}:
            found.add("completions")  # Its revision has the method, but no capability for it.
        return frozenset(found)

    def offers(self, capability: str, flag: str | None = None) -> bool:
        """Whether it declared a capability, and a flag of it."""
        declared = self.capabilities.get(capability)
        if declared is None or bytes(declared) == b"null":
            return False
        if flag is None:
            return True
        try:
            return raw_json.members(declared).get(flag) == msgspec.Raw(b"true")
        except msgspec.DecodeError:
            return False
