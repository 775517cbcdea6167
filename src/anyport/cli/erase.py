"""`anyport erase`: what was said, taken out of the record; that it was said stays in it."""

import os
import time
from dataclasses import asdict

from anyport.cli import places
from anyport.cli.ending import GOOD, WrongUsage
from anyport.cli.options import Given
from anyport.cli.recorded import Asked
from anyport.cli.render import out, out_json
from anyport.cli.results import size
from anyport.record.erasing import Erased, doomed_by, erase_payloads, weigh_payloads


def erase(given: Given, words: tuple[str, ...], *, yes: bool) -> int:
    """Erase the payloads of exchanges that match; the exit code.

    Raises:
        WrongUsage: nobody said that it is meant; what would go is told.
    """
    asked = Asked(words)
    state_dir = places.state_dir(given.state_dir, os.environ)
    with doomed_by(state_dir, asked.filter) as doomed:
        if not yes:
            weighed = weigh_payloads(state_dir, doomed)
            if given.json:
                _out_json(weighed, done=False)
            told = _told(weighed)
            raise WrongUsage(f"this would erase {told}; it cannot be undone. Add --yes to do it")
        erased = erase_payloads(state_dir, doomed, time.time())
    if given.json:
        _out_json(erased, done=True)
    else:
        out(f"erased {_told(erased)}")
    return GOOD


def _out_json(erased: Erased, *, done: bool) -> None:
    out_json({"erased": done, **asdict(erased)}, indent=0)


def _told(erased: Erased) -> str:
    count = erased.exchanges
    rows = "1 exchange or frame" if count == 1 else f"{count} exchanges and frames"
    return f"what was said in {rows} ({size(erased.bytes)})"
