"""A disk and a clock that misbehave on demand, for a gateway in a process of its own.

What may go wrong: writes, syncs and opening for writing, in files whose path holds some words, each
slow or failing, from one moment to the next; and the time of day. It is done in Python (see
`faulty_disk_site/sitecustomize.py`), so that it works wherever the gateway does.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

SITE: Final = Path(__file__).with_name("faulty_disk_site")
WRITES: Final = ("write", "writev", "pwrite")
SYNCS: Final = ("fsync", "fdatasync")
ALL: Final = (*WRITES, *SYNCS, "open")


class FaultyDisk:
    """The hand on one disk, that of a state directory, and on the clock."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._control = folder / "fsshim.json"
        self._orders: dict[str, Any] = {}
        self.environ = {
            "FSSHIM_CONTROL": str(self._control),
            "FSSHIM_ROOT": str(root.resolve()),
            "PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")]),
        }
        """What the gateway has to be started with, beside the rest."""
        self._tell()

    @contextmanager
    def disk(
        self,
        *,
        error: str | None = None,
        seconds: float = 0.0,
        calls: Sequence[str] = WRITES,
        where: str = "",
    ) -> Iterator[None]:
        """Meanwhile some calls take so long, or fail with the error of this name.

        A call that takes long ends with the block at the latest.
        """
        order = {"calls": list(calls), "where": where, "error": error, "seconds": seconds}
        self._orders["disk"] = [*self._orders.get("disk", []), order]
        self._tell()
        try:
            yield
        finally:
            self._orders["disk"].remove(order)
            self._tell()

    @property
    def spoilt(self) -> list[tuple[str, str]]:
        """The calls that took long or failed so far, in order, each with its thread: of the loop
        (`main`) or any other."""
        log = Path(f"{self._control}.log")
        lines = log.read_text().splitlines() if log.exists() else []
        return [(call, thread) for call, _, thread in (line.partition(" ") for line in lines)]

    def set_clock(self, ahead_seconds: float) -> None:
        """From now on the time of day is off by so much."""
        self._orders["ahead"] = ahead_seconds
        self._tell()

    def _tell(self) -> None:
        scratch = self._control.with_suffix(".tmp")
        scratch.write_text(json.dumps(self._orders))
        scratch.replace(self._control)
