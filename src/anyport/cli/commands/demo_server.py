"""`anyport demo-server`: runs the demo server, which parses its own options."""

import runpy
import sys
from typing import Final

EXAMPLE: Final = "anyport demo-server --http 8000"


def demo_server(argv: list[str]) -> int:
    """Run it with these arguments; the exit code."""
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(f"Example: {EXAMPLE}\n\n")
    sys.argv = ["anyport demo-server", *argv]
    try:
        runpy.run_module("anyport.demo", run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0
