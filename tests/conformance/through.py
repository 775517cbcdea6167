"""The client that the suite starts: the reference client, with a gateway between the two.

    python -m tests.conformance.through FOLDER URL

A gateway has one server, the suite's at the URL, and keeps its log and state in the folder. The
reference client is pointed at the gateway, and its exit code is ours.
"""

import subprocess
import sys
from pathlib import Path

from tests.conformance import ways


def main() -> int:
    folder, url = sys.argv[1:]
    with ways.gateway({"url": url}, Path(folder)) as gateway:
        return subprocess.run([*ways.reference_client(), gateway], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
