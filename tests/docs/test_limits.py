"""Every limit of the code stands on its page with its value, or is no business of users."""

import ast
import importlib
import re
from functools import reduce
from typing import Any, Final

from tests.docs.test_docs import PACKAGE, text_of

INTERNAL: Final = {
    "upstream/http/channel.py BATCH_MAX": "a part of a slice; the slice has the limit",
    "upstream/http/connection.py INFLATED_BYTES": "how much comes out at a time, not in all",
    "upstream/http/channel.py ERROR_TEXT_BYTES_MAX": "how a refusal is understood",
    "upstream/http/channel.py ID_BYTES_MAX": "how an answer is understood",
    "upstream/stdio/pipe.py STDERR_BYTES": "how much is looked at at a time, not in all",
    "config/faults.py SIMILARITY_MIN": "how faults are worded",
    "config/faults.py SHOWN_CHARS_MAX": "how faults are worded",
    "config/load.py MISSPELLING_MIN": "how faults are worded",
    "gateway/api/app.py NAME_CHARS_MAX": "how problems are worded",
    "gateway/api/app.py NAMES_SHOWN_MAX": "how problems are worded",
    "gateway/hooks/hooks.py PENDING_EVENTS_MAX": "when events are looked at",
    "gateway/hooks/hooks.py POLL_SECONDS": "how often a loop looks",
    "gateway/hooks/actions.py DOUBLINGS_MAX": "keeps a number small",
    "gateway/hooks/actions.py READ_BYTES": "one system call",
    "gateway/hooks/queue.py READ_BYTES": "one system call",
    "gateway/hooks/queue.py SEGMENT_BYTES_MAX": "how the spool lies on the disk",
    "gateway/explain.py SIMILAR_NAMES_MAX": "how answers are worded",
    "gateway/explain.py SUGGESTIONS_MAX": "how answers are worded",
    "gateway/calls/fast_path.py FAST_PATHS_MAX": "a cache",
    "gateway/recording/call_recorder.py EVENT_TEMPLATES_MAX": "a cache",
    "record/wall_clock.py SAVE_SECONDS": "how often a file is written",
    "gateway/calls/retry.py OPEN_CALLS_COUNT_SECONDS": "how often calls are counted",
    "gateway/calls/retry.py RESTART_POLL_SECONDS": "how often a loop looks",
    "upstream/lists.py RETRY_SECONDS": "less than another that is listed",
    "protocol/capabilities.py DECLARATIONS_CACHED_MAX": "a cache",
    "protocol/capabilities.py DECLARATION_BYTES_CACHED_MAX": "a cache",
    "protocol/adapters/downgrade.py ELICITATION_ID_BYTES": "how strong a name is",
    "protocol/result.py BRACES_CHECKED_MAX": "a text with more takes the ordinary way",
    "protocol/result.py LONG_RESULT_BYTES": "a shorter result takes the ordinary way",
    "protocol/request.py ID_BYTES_MAX": "a longer one takes the ordinary way",
    "gateway/memory.py ARENAS_MAX": "how the allocator is set",
    "wire/lines.py EDGE_BYTES": "how much is looked at to find an id",
    "wire/jsonrpc.py SHALLOW_BYTES": "less than another that is listed",
    "wire/http1.py STREAMING_HEADS_CACHED_MAX": "a cache",
    "wire/raw_json.py FOLDED_NAME_SETS_MAX": "a cache",
    "wire/raw_json.py CHANGES_PLACED_MAX": "with more, an object is encoded again",
    "wire/raw_json.py MEMBERS_WALKED_MAX": "of more, each is looked at in another way",
    "record/capture.py PAGES_REMEMBERED_MAX": "a cache",
    "ingress/http/handover.py MESSAGE_BYTES_MAX": "what two gateways tell each other",
    "ingress/http/handover.py PATH_BYTES_MAX": "a longer one is reached another way",
    "ingress/http/handover.py SOCKETS_MAX": "a name stands for a few addresses",
    "ingress/http/connection.py COPIED_BYTES_MAX": "how answers are written",
    "upstream/http/connection.py SWEEP_SECONDS_MAX": "how often a loop looks",
    "ingress/http/session_store.py FILES_PER_SWEEP_MAX": "how much is done at once",
    "ingress/http/session_store.py NAME_BYTES": "the length of a digest",
    "ingress/http/sessions.py QUESTION_ID_BYTES": "how strong a name is",
    "ingress/http/sessions.py STREAM_PREFIX_BYTES": "how strong a name is",
    "ingress/http/sessions.py TOUCHES_MAX": "how much is done at once",
    "ingress/http/sessions.py TOUCH_SECONDS": "how often a file is touched",
    "ingress/http/streams.py REQUEST_ID_BYTES_MAX": "a longer one is not named in events",
    "gateway/local/query_params.py SHOWN_CHARS_MAX": "how faults are worded",
    "gateway/calls/call.py BUFFERED_PROGRESS_MAX": "only the last reports count",
    "gateway/local/notifications.py EARLY_NOTIFICATIONS_MAX": "only the last notices count",
    "gateway/elicitation/input_required_loop.py REPEAT_SECONDS": "less than another that is listed",
    "gateway/elicitation/request_state.py FINGERPRINT_BYTES": "the length of a digest",
    "gateway/elicitation/parked_calls.py BUFFERED_LOGS_MAX": "only the last logs count",
    "gateway/elicitation/parked_calls.py QUESTIONS_BATCH_SECONDS": "how questions are put together",
    "gateway/api/stream.py GATHER_SECONDS": "how streams are written",
    "record/journal/payloads.py PAYLOAD_FILES_OPEN_MAX": "a cache",
    "record/index/traffic.py AMBIGUOUS_IDS_MAX": "how problems are worded",
    "gateway/elicitation/parked_calls.py PARKED_ID_BYTES": "how strong a name is",
    "gateway/recording/messages.py SKIPPED_PEERS_MAX": "for whom what was skipped is counted",
    "record/capture.py METHOD_CHARS_MAX": "how a name is shown",
    "record/capture.py TEXTS_REMEMBERED_MAX": "a cache",
    "record/capture.py FRAMES_REMEMBERED_MAX": "a cache",
    "record/redact/outline.py WHOLE_PART_BYTES_MAX": "how outlines are made",
    "record/redact/outline.py REMEMBERED_MAX": "a cache",
    "record/redact/outline.py REMEMBERED_KEY_CHARS_MAX": "a cache",
    "record/redact/patterns.py REMEMBERED_MAX": "a cache",
    "record/redact/json.py KEYS_REMEMBERED_MAX": "a cache",
    "record/redact/json.py SECRET_PART_CHARS_MIN": "less than another that is listed",
    "upstream/connection.py CANCELLED_CALLS_MAX": "only the last ones count",
    "record/journal/payloads.py HOUR_SECONDS": "the length of an hour",
    "record/journal/payloads.py CHECK_SECONDS": "how often a loop looks",
    "record/redact/outline.py DECODER_PAYLOAD_BYTES_MAX": "how outlines are made",
    "record/redact/outline.py DECODER_PARTS_MAX": "how outlines are made",
    "record/redact/outline.py DECODERS_MAX": "a cache",
    "observe/telemetry.py OPEN_SECONDS": "when packages are imported",
    "observe/otlp.py REASON_CHARS_MAX": "how a warning is worded",
    "gateway/memory.py FREE_BYTES_MAX": "a wish to the allocator",
    "gateway/memory.py MMAP_BYTES_MIN": "a wish to the allocator",
    "observe/metrics.py UNSORTED_TIMES_MAX": "how often times are sorted",
    "gateway/gateway.py MEMORY_SETUP_SECONDS": "when the allocator is told",
    "gateway/status.py DEFAULT_TIMEOUT_SECONDS": "another name for one that is listed",
    "ingress/http/asgi.py DRAIN_SECONDS": "how often a loop looks",
    "ingress/http/endpoint.py RETRY_SECONDS": "what a field of an answer says",
    "ingress/http/modern_requests.py CALLERS_CACHED_MAX": "a cache",
    "ingress/http/modern_requests.py CALLER_BYTES_CACHED_MAX": "a cache",
    "ingress/http/server.py DRAIN_POLL_SECONDS": "how often a loop looks",
    "ingress/http/server.py SWEEP_SECONDS": "how often a loop looks",
    "ingress/http/sessions.py ID_BYTES": "the length of a secret",
    "ingress/stdio.py READ_BYTES": "one system call",
    "protocol/request.py METAS_CACHED_MAX": "a cache",
    "protocol/request.py META_BYTES_CACHED_MAX": "a cache",
    "protocol/sealing.py KEY_BYTES": "the length of a secret",
    "protocol/sealing.py TAG_BYTES": "the length of a secret",
    "record/tamper/chain.py WRITER_BYTES": "the length of a name",
    "record/journal/segments.py FINGERPRINT_BYTES": "how a file is told from others",
    "record/retention.py DAY_SECONDS": "a day",
    "record/retention.py READ_PAUSE_SECONDS": "how a thread shares its turn",
    "record/tamper/verify.py ATTEMPTS_MAX": "how often a reader looks again",
    "record/tamper/verify.py CHUNK_BYTES": "one system call",
    "record/tamper/verify.py LINE_BYTES_MAX": "more than another that is listed",
    "record/filter/since.py UNIT_SECONDS": "how spans of time are written",
    "record/filter/parser.py SHOWN_CHARS_MAX": "how faults are worded",
    "gateway/local/event_queries.py STEP_BYTES": "how much is done at once",
    "gateway/local/event_queries.py SWITCH_SECONDS": "a wish to the interpreter",
    "record/index/indexer.py FINGERPRINT_BYTES_MAX": "how files are told apart",
    "record/index/indexer.py LINE_BYTES_MAX": "made of one that is listed",
    "record/index/indexer.py PREFIX_DIGITS_MIN": "a shorter one takes the ordinary way",
    "record/index/indexer.py SESSIONS_REMEMBERED_MAX": "a cache",
    "record/index/indexer.py SORTS_REMEMBERED_MAX": "a cache",
    "record/journal/journal.py REMEMBERED_CHARS_MAX": "a cache",
    "record/journal/journal.py REMEMBERED_TEXTS_MAX": "a cache",
    "record/compare.py DIFFERENCES_MAX": "how differences are shown",
    "lint/frame_files.py SHOWN_CHARS_MAX": "how a line is shown",
    "lint/json_schema.py SHOWN_CHARS_MAX": "how a finding is worded",
    "lint/rules/modern.py DISCOVERY_MS_MAX": "what a rule of lint says",
    "lint/rules/results.py COMPLETION_VALUES_MAX": "a rule of the protocol",
    "record/redact/json.py REGION_BYTES": "how much is looked at at once",
    "record/redact/redactor.py FRAGMENT_CHARS_MIN": "how secrets are found",
    "upstream/handshake_trials.py HANDSHAKE_SHARE_MAX": "stands beside one that is listed",
    "upstream/backoff.py GROWTHS_MAX": "keeps a number small",
    "upstream/connection.py NOISE_BYTES_MAX": "how a warning is worded",
    "upstream/http/streamable.py HEADS_MAX": "a cache",
    "upstream/http/streamable.py HEAD_BYTES_KEPT_MAX": "a cache",
    "upstream/stdio/pipe.py READ_BYTES": "one system call",
    "upstream/stdio/pipe.py REST_READS_MAX": "what a pipe holds, and more",
    "upstream/stdio/process.py KEEPER_GONE_SECONDS_MAX": "made of two that are listed",
    "upstream/stdio/process.py PIPE_BYTES": "a wish to the kernel",
    "upstream/stdio/process.py REAP_SECONDS": "how often a loop looks",
    "upstream/http/transport.py DRAIN_CHECK_SECONDS": "how often a loop looks",
    "upstream/stdio/reaper.py SWEEP_SECONDS": "how often a loop looks",
    "wire/write_buffer.py WRITEV_BUFFERS_MAX": "one system call",
    "wire/http1.py HEADS_CACHED_MAX": "a cache",
    "wire/http1.py HEAD_BYTES_CACHED_MAX": "a cache",
    "ingress/http/session_store.py NONCE_BYTES": "a length of chance",
    "gateway/servers.py RETIRED_POLL_SECONDS": "how often, not how long",
    "gateway/reload.py PROVISION_POLL_SECONDS": "how often, not how long",
    "gateway/reload.py FAULTS_SHOWN_MAX": "of those that `anyport check` tells",
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
    return re.findall(row, text_of("docs/reference/limits.md"), re.MULTILINE)


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


def value_of(file: str, constant: str) -> Any:
    module: Any = importlib.import_module(f"anyport.{file.removesuffix('.py').replace('/', '.')}")
    if constant == "GatewayConfig.list_seconds":
        return module.GatewayConfig().list_seconds
    return reduce(getattr, constant.split("."), module)


def test_a_limit_on_the_page_has_the_value_of_the_code() -> None:
    rows = [(shown.partition(" "), file, constant) for shown, file, constant in rows_of_limits()]
    assert rows
    shown = {(file, name): float(number) * UNITS[unit] for (number, _, unit), file, name in rows}
    assert shown == {place: value_of(*place) for place in shown}


def test_every_limit_is_on_the_page_or_is_no_business_of_users() -> None:
    listed = {f"{file} {constant}" for _, file, constant in rows_of_limits()}
    missing = constants() - listed - INTERNAL.keys()
    assert not missing, "add it to docs/reference/limits.md, or to INTERNAL with the reason"
    assert constants() >= INTERNAL.keys()
