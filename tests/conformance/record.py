"""Renews `baseline.json`: runs the suite with nothing between it and the reference implementation.

    python -m tests.conformance.record

For a new version of the suite or of the SDKs; read the difference before you commit it.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.conformance import expectations, suite, ways


def record_server(way: ways.Way, folder: Path) -> dict[str, dict[str, dict[str, int]]]:
    """What passes against a reference server, at each revision it speaks."""
    passing = {}
    with way.url(folder) as url:
        for revision in way.revisions:
            findings = suite.run_server_leg(url, revision, folder / revision)
            passing[revision] = expectations.tally(findings)
    return passing


def record_client(folder: Path) -> dict[str, dict[str, dict[str, int]]]:
    """What passes with the reference client."""
    command = ways.reference_client()
    return {
        revision: expectations.tally(
            {
                scenario: suite.run_client_leg(command, scenario, revision, folder / revision)
                for scenario in suite.list_scenarios("client", revision)
            }
        )
        for revision in suite.REVISIONS
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        baseline: Mapping[str, object] = {
            **{
                way.sdk: record_server(way, folder / way.sdk)
                for way in ways.WAYS.values()
                if way.direct
            },
            "client": record_client(folder / "client"),
        }
    expectations.BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")


if __name__ == "__main__":
    main()
