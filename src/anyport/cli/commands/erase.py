"""`anyport erase`: removes recorded payloads; the events stay in the journal."""

import os
import time
from dataclasses import asdict

from anyport.cli import dirs
from anyport.cli.connect.traffic import FilterQuery
from anyport.cli.exit_codes import SUCCESS, WrongUsage
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json
from anyport.cli.results import format_bytes
from anyport.record.erasure import (
    ErasureTotals,
    erase_payloads,
    match_payload_lines,
    measure_erasure,
)


def erase(options: SharedOptions, words: tuple[str, ...], *, yes: bool) -> int:
    """Erase the payloads of matching exchanges; the exit code.

    Raises:
        WrongUsage: without `--yes`; the text says what would be erased.
    """
    query = FilterQuery(words)
    state_dir = dirs.state_dir(options.state_dir, os.environ)
    with match_payload_lines(state_dir, query.filter) as matched:
        if not yes:
            totals = measure_erasure(state_dir, matched)
            if options.json:
                _out_json(totals, done=False)
            description = _describe_totals(totals)
            raise WrongUsage(
                f"this would erase {description}, and cannot be undone: add --yes to erase"
            )
        erased = erase_payloads(state_dir, matched, time.time())
    if options.json:
        _out_json(erased, done=True)
    else:
        out(f"erased {_describe_totals(erased)}")
    return SUCCESS


def _out_json(erased: ErasureTotals, *, done: bool) -> None:
    out_json({"erased": done, **asdict(erased)}, indent=0)


def _describe_totals(erased: ErasureTotals) -> str:
    count = erased.exchanges
    rows = "1 exchange or message" if count == 1 else f"{count} exchanges and messages"
    return f"the payloads of {rows} ({format_bytes(erased.bytes)})"
