"""What a client brings back that was told to come back: its `inputResponses`."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from anyport.protocol.exchange import Exchange, Question
from anyport.protocol.form import fits
from anyport.wire import members
from anyport.wire.frame import Result


def responses_of(exchange: Exchange) -> Mapping[str, Raw] | None:
    """The answers by the names of their questions; None if there are none, or it is no object."""
    raw = exchange.found.get("inputResponses")
    try:
        return None if raw is None else members.members(raw)
    except msgspec.DecodeError:
        return None


def bring(responses: Mapping[str, Raw], questions: Mapping[str, Question]) -> None:
    """Answer the questions to which there is an answer that fits."""
    for key, question in questions.items():
        answer = responses.get(key)
        if answer is not None and fits(question.method, question.params, bytes(answer)):
            question.answer(Result(b"", bytes(answer)))
