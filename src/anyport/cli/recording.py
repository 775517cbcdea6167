"""Whether a gateway that is about to serve can keep its record; if it must, it does not begin."""

from anyport.gateway.runtime import Gateway


def obstacle(gateway: Gateway) -> str | None:
    """Why a gateway that makes no call without a record would make none at all.

    What is wrong with the record, and what to do about it, has been said already.
    """
    gateway.journal.flush()  # That it has started is the first thing to be recorded.
    if not gateway.journal.blocking:
        return None
    return (
        'nothing is served, because record.onFailure is "block" and nothing can be recorded; '
        'with "degrade", calls are served all the same'
    )
