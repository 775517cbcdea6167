"""Every limit of the code stands on its page with its value, or is no business of users."""

import ast
import importlib
import re
from functools import reduce
from typing import Any, Final

import pytest

from tests.docs.test_docs import PACKAGE, text_of

INTERNAL: Final = {
    "config/faults.py NEARNESS_MIN": "how faults are worded",
    "config/faults.py SHOWN_CHARS_MAX": "how faults are worded",
    "config/load.py MISSPELLING_MIN": "how faults are worded",
    "gateway/api/app.py ASKED_CHARS_MAX": "how problems are worded",
    "gateway/api/app.py NAMES_MAX": "how problems are worded",
    "gateway/hooks.py HEARD_EVENTS_MAX": "when events are looked at",
    "gateway/hooks.py OWN_SPANS_MAX": "how circles are found",
    "gateway/hooks.py POLL_SECONDS": "how often a loop looks",
    "gateway/hooks_action.py DOUBLINGS_MAX": "keeps a number small",
    "gateway/hooks_run.py READ_BYTES": "one system call",
    "gateway/hooks_spool.py SEGMENT_BYTES_MAX": "how the spool lies on the disk",
    "gateway/why.py SUGGESTIONS_MAX": "how answers are worded",
    "gateway/laying.py TRACKS_MAX": "a cache",
    "gateway/ledger.py HABITS_MAX": "a cache",
    "record/timekeeping.py SEEN_SECONDS": "how often a file is written",
    "gateway/retries.py COUNT_SECONDS": "how often calls are counted",
    "gateway/retries.py LOOK_SECONDS": "how often a loop looks",
    "upstream/listing.py AGAIN_SECONDS": "less than another that is listed",
    "protocol/capability.py DECLARATIONS_REMEMBERED_MAX": "a cache",
    "protocol/capability.py DECLARATION_BYTES_REMEMBERED_MAX": "a cache",
    "protocol/downgrade_question.py ID_BYTES": "how strong a name is",
    "protocol/kinds.py BRACES_MAX": "a text with more takes the ordinary way",
    "protocol/kinds.py LONG_BYTES": "a shorter result takes the ordinary way",
    "protocol/reading.py ID_BYTES_MAX": "a longer one takes the ordinary way",
    "gateway/memory.py ARENAS_MAX": "how the allocator is set",
    "wire/framing.py EDGE_BYTES": "how much is looked at to find an id",
    "wire/codec.py SHALLOW_BYTES": "less than another that is listed",
    "wire/http.py HEADS_WRITTEN_MAX": "a cache",
    "ingress/http/handover.py NOTE_BYTES_MAX": "what two gateways tell each other",
    "ingress/http/handover.py PATH_BYTES_MAX": "a longer one is reached another way",
    "ingress/http/handover.py SOCKETS_MAX": "a name stands for a few addresses",
    "ingress/http/inlet.py LARGE_BYTES": "how answers are written",
    "upstream/http/patience.py SWEEP_SECONDS_MAX": "how often a loop looks",
    "ingress/http/register.py LOOKS_MAX": "how much is done at once",
    "ingress/http/register.py NAME_BYTES": "the length of a digest",
    "ingress/http/sessions.py QUESTION_BYTES": "how strong a name is",
    "ingress/http/sessions.py SHELF_BYTES": "how strong a name is",
    "ingress/http/sessions.py TOUCHES_MAX": "how much is done at once",
    "ingress/http/sessions.py TOUCH_SECONDS": "how often a file is touched",
    "ingress/http/streams.py REQUEST_ID_BYTES_MAX": "a longer one is not named in events",
    "gateway/inquiry.py SHOWN_CHARS_MAX": "how faults are worded",
    "gateway/resting.py HELD_REPORTS_MAX": "only the last reports count",
    "gateway/feed.py EARLY_NOTICES_MAX": "only the last notices count",
    "gateway/rounds.py AGAIN_SECONDS": "less than another that is listed",
    "gateway/states.py MARK_BYTES": "the length of a digest",
    "gateway/parks.py HELD_LOGS_MAX": "only the last logs count",
    "gateway/parks.py GATHER_SECONDS": "how questions are put together",
    "gateway/api/stream.py GATHER_SECONDS": "how streams are written",
    "record/shelf.py PAYLOAD_FILES_OPEN_MAX": "a cache",
    "record/traffic.py SEVERAL_MAX": "how problems are worded",
    "gateway/parks.py ID_BYTES": "how strong a name is",
    "gateway/asides.py PEERS_MAX": "for whom what was skipped is counted",
    "gateway/tap.py METHOD_CHARS_MAX": "how a name is shown",
    "gateway/tap.py TEXTS_REMEMBERED_MAX": "a cache",
    "gateway/tap.py FRAMES_REMEMBERED_MAX": "a cache",
    "record/outline.py PART_BYTES_MAX": "how outlines are made",
    "record/outline.py REMEMBERED_MAX": "a cache",
    "record/outline.py REMEMBERED_KEY_CHARS_MAX": "a cache",
    "record/names.py REMEMBERED_MAX": "a cache",
    "record/members.py KEYS_REMEMBERED_MAX": "a cache",
    "record/members.py PART_CHARS_MIN": "less than another that is listed",
    "upstream/connection.py GIVEN_UP_MAX": "only the last ones count",
    "record/payloads.py HOUR_SECONDS": "the length of an hour",
    "record/payloads.py CHECK_SECONDS": "how often a loop looks",
    "record/likeness.py MOULDED_BYTES_MAX": "how outlines are made",
    "record/likeness.py MOULDED_PARTS_MAX": "how outlines are made",
    "record/likeness.py MOULDS_MAX": "a cache",
    "gateway/telemetry.py OPEN_SECONDS": "when packages are imported",
    "gateway/telemetry_otlp.py REASON_CHARS_MAX": "how a warning is worded",
    "gateway/memory.py FREE_BYTES_MAX": "a wish to the allocator",
    "gateway/memory.py MMAP_BYTES_MIN": "a wish to the allocator",
    "gateway/metrics.py UNSORTED_TIMES_MAX": "how often times are sorted",
    "gateway/runtime.py MEMORY_SECONDS": "when the allocator is told",
    "gateway/status.py DEFAULT_TIMEOUT_SECONDS": "another name for one that is listed",
    "ingress/http/asgi.py DRAIN_SECONDS": "how often a loop looks",
    "ingress/http/endpoint.py RETRY_SECONDS": "what a field of an answer says",
    "ingress/http/modern.py CALLERS_REMEMBERED_MAX": "a cache",
    "ingress/http/modern.py CALLER_BYTES_REMEMBERED_MAX": "a cache",
    "ingress/http/server.py QUIET_SECONDS": "how often a loop looks",
    "ingress/http/server.py SWEEP_SECONDS": "how often a loop looks",
    "ingress/http/sessions.py ID_BYTES": "the length of a secret",
    "ingress/stdio.py READ_BYTES": "one system call",
    "protocol/reading.py ABOUTS_REMEMBERED_MAX": "a cache",
    "protocol/reading.py ABOUT_BYTES_REMEMBERED_MAX": "a cache",
    "protocol/seal.py KEY_BYTES": "the length of a secret",
    "protocol/seal.py TAG_BYTES": "the length of a secret",
    "record/chain.py WRITER_BYTES": "the length of a name",
    "record/segments.py BEGINNING_BYTES": "how a file is told from others",
    "record/retention.py DAY_SECONDS": "a day",
    "record/retention.py REST_SECONDS": "how a thread shares its turn",
    "record/verify.py ATTEMPTS_MAX": "how often a reader looks again",
    "record/walk.py CHUNK_BYTES": "one system call",
    "record/walk.py LINE_BYTES_MAX": "more than another that is listed",
    "record/filter.py SHOWN_CHARS_MAX": "how faults are worded",
    "gateway/events.py STEP_BYTES": "how much is done at once",
    "gateway/events.py TURN_SECONDS": "a wish to the interpreter",
    "record/intake.py HEAD_BYTES": "how files are told apart",
    "record/intake.py LINE_BYTES_MAX": "made of one that is listed",
    "record/marks.py PREFIX_DIGITS_MIN": "a shorter one takes the ordinary way",
    "record/reading.py SESSIONS_REMEMBERED_MAX": "a cache",
    "record/reading.py SORTS_REMEMBERED_MAX": "a cache",
    "record/journal.py REMEMBERED_CHARS_MAX": "a cache",
    "record/journal.py REMEMBERED_TEXTS_MAX": "a cache",
    "record/compare.py DIFFERENCES_MAX": "how differences are shown",
    "record/lint/frames.py SHOWN_CHARS_MAX": "how a line is shown",
    "record/lint/modern.py DISCOVERY_MS_MAX": "what a rule of lint says",
    "record/lint/results.py COMPLETION_VALUES_MAX": "a rule of the protocol",
    "record/redact.py FRAGMENT_CHARS_MIN": "how secrets are found",
    "upstream/backoff.py GROWTHS_MAX": "keeps a number small",
    "upstream/connection.py NOISE_BYTES_MAX": "how a warning is worded",
    "upstream/http/modern.py HEADS_MAX": "a cache",
    "upstream/http/modern.py HEAD_BYTES_KEPT_MAX": "a cache",
    "upstream/pipe.py READ_BYTES": "one system call",
    "upstream/pipe.py REST_READS_MAX": "what a pipe holds, and more",
    "upstream/process.py LOST_SECONDS_MAX": "made of two that are listed",
    "upstream/process.py PIPE_BYTES": "a wish to the kernel",
    "upstream/process.py REAP_SECONDS": "how often a loop looks",
    "upstream/remote.py RETIRED_LOOK_SECONDS": "how often a loop looks",
    "upstream/warden.py SWEEP_SECONDS": "how often a loop looks",
    "wire/backlog.py PIECES_MAX": "one system call",
    "wire/http.py HEADS_REMEMBERED_MAX": "a cache",
    "wire/http.py HEAD_BYTES_REMEMBERED_MAX": "a cache",
    "ingress/http/register.py NONCE_BYTES": "a length of chance",
    "gateway/fleet.py RETIRED_LOOK_SECONDS": "how often, not how long",
    "gateway/reload.py PROVISION_LOOK_SECONDS": "how often, not how long",
    "gateway/reload.py FAULTS_TOLD_MAX": "of those that `anyport check` tells",
}
"""Constants that no user can run into, and why. One that is gone is a fault, too."""

ASIDE: Final = {
    "cli": "how commands wait and show things",
    "demo": "a server of its own, with a page of its own",
}
"""Packages whose constants need not be listed, and why."""

UNITS: Final = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024**2}


def rows_of_limits() -> list[tuple[str, str, str]]:
    """Value, file and constant of every row."""
    row = r"^\|[^|]+\| ([^|]+) \| `([\w/]+\.py)` `([\w.]+)` \|"
    return re.findall(row, text_of("docs/limits.md"), re.MULTILINE)


def constants() -> set[str]:
    """Every constant of the gateway that looks like a limit, as `file NAME`."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE)
        if file.parts[0] in ASIDE:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            names: list[ast.expr] = [node.target] if isinstance(node, ast.AnnAssign) else []
            names += node.targets if isinstance(node, ast.Assign) else []
            found |= {
                f"{file} {name.id}"
                for name in names
                if isinstance(name, ast.Name)
                and re.fullmatch(r"[A-Z]\w+_(MAX|MIN|SECONDS|BYTES|DEFAULT|PAUSE)", name.id)
            }
    return found


@pytest.mark.parametrize(("shown", "file", "constant"), rows_of_limits())
def test_a_limit_on_the_page_has_the_value_of_the_code(
    shown: str, file: str, constant: str
) -> None:
    number, _, unit = shown.partition(" ")
    module: Any = importlib.import_module(f"anyport.{file.removesuffix('.py').replace('/', '.')}")
    if constant == "GatewayConfig.list_seconds":
        value = module.GatewayConfig().list_seconds
    else:
        value = reduce(getattr, constant.split("."), module)
    assert float(number) * UNITS[unit] == value


def test_every_limit_is_on_the_page_or_is_no_business_of_users() -> None:
    listed = {f"{file} {constant}" for _, file, constant in rows_of_limits()}
    missing = constants() - listed - INTERNAL.keys()
    assert not missing, "add it to docs/limits.md, or to INTERNAL with the reason"
    assert constants() >= INTERNAL.keys()
