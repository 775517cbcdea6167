"""Command lines that start the demo server of the package."""

import sys
from typing import Final

DEMO_SERVER: Final = [sys.executable, "-m", "anyport", "demo-server"]
EVERY_METHOD: Final[list[tuple[str, dict[str, object]]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "Grüße 🌍"}}),
    ("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}}),
    ("tools/call", {"name": "slow", "arguments": {"seconds": 0, "steps": 2}}),
    ("tools/call", {"name": "image"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "demo://greeting"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
]
