"""A tap that records as much as a test wants."""

from pathlib import Path
from types import MappingProxyType

from anyport.config.schema import Capture, Config, GatewayConfig, RecordConfig
from anyport.gateway.tap import Tap
from anyport.record.outline import Digests
from anyport.record.payloads import Payloads
from anyport.record.redact import Redactor


def tap(state_dir: Path, capture: Capture = "off") -> Tap:
    """One for a gateway without servers of its own."""
    config = Config(
        gateway=GatewayConfig(),
        servers=MappingProxyType({}),
        profiles=MappingProxyType({}),
        record=RecordConfig(capture=capture),
    )
    payloads = Payloads(state_dir, "0badcafe", lambda: 0.0)
    return Tap(config, Redactor({"a configured secret"}), payloads, Digests(b"key"))
