"""The judge of filters that whoever loads a configuration with hooks brings along."""

from typing import Final

from anyport.config.hooks import Objection

TIME_KEYS: Final = frozenset({"since", "until"})
"""What asks for events of a certain time: those of a hook happen now."""


def judge_filter(text: str) -> Objection | None:
    """What is wrong with the filter of a hook."""
    # Only here: most configurations have no hooks, and a client waits for `anyport stdio`.
    from anyport.record.filter import BadFilter, parse_filter  # noqa: PLC0415

    try:
        filter = parse_filter(text, 0.0)
    except BadFilter as error:
        excerpt = str(error).partition("\n")[2]
        return Objection(message=error.message, excerpt=excerpt)
    spans = list(dict.fromkeys(term.key for term in filter.terms if term.key in TIME_KEYS))
    if not spans:
        return None
    said = " and ".join(f"{key}:" for key in spans)
    message = f"there is no use for {said} in a hook, which sees only what happens from now on"
    return Objection(message=message, hint="remove it", usable=True)
