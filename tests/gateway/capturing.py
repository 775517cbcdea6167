"""Traffic capture at the level that a test wants."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from anyport.config.model import Capture, Config, GatewayConfig, RecordConfig
from anyport.record.capture import TrafficCapture
from anyport.record.journal.payloads import PayloadWriter
from anyport.record.redact.outline import PayloadDigests
from anyport.record.redact.redactor import Redactor


def capture_at(
    state_dir: Path,
    capture: Capture = "off",
    soon: Callable[[Callable[[], None]], object] | None = None,
) -> TrafficCapture:
    """One for a gateway without servers of its own."""
    config = Config(
        gateway=GatewayConfig(),
        servers=MappingProxyType({}),
        profiles=MappingProxyType({}),
        record=RecordConfig(capture=capture),
    )
    payloads = PayloadWriter(state_dir, "0badcafe", lambda: 0.0)
    return TrafficCapture(
        config, Redactor({"a configured secret"}), payloads, PayloadDigests(b"key"), soon
    )
