"""A complete MCP server for tests: every revision, every transport, every feature.

It imports nothing of Anyport, so that a misreading of the protocol cannot be the same on both sides
and go unnoticed. It is started by the path of this file.
"""

import os.path
import sys

# The root of the repository replaces this folder, whose `http` would hide the standard library's.
sys.path[0] = os.path.abspath(f"{__file__}/../../../..")

from tests.peers.demo.server import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
