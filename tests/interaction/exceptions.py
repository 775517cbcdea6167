"""The tests of the SDK's interaction suite that do not pass through the gateway, and why.

Each names one test; it fails in the cells named, and nowhere else. A test that begins to pass has
to go from here.
"""

from typing import Final

LEGACY: Final = ("in-memory-2025-11-25", "sse-2025-11-25", "streamable-http-2025-11-25")
MODERN: Final = ("in-memory-2026-07-28", "streamable-http-2026-07-28")

EXCEPTIONS: Final = {
    "test_progress_sent_after_the_response_is_not_delivered_to_the_callback": (
        LEGACY,
        "Waits until the client hears of progress on a request that has its answer. 'Progress "
        "notifications MUST stop after completion' (basic/utilities/progress), and a token of "
        "progress belongs to one connection: after the answer nobody knows "
        "which of the client's it was.",
    ),
    "test_the_subscription_id_is_the_listen_request_id_the_server_saw": (
        MODERN,
        "Compares the id of a request on both sides. A request id belongs to one connection, 'MUST "
        "NOT have been previously used by the requestor within the same session' (basic), and one "
        "connection to a modern server serves many clients: the ids on it are the gateway's. Each "
        "side has the id of its own request as that of the subscription.",
    ),
}
