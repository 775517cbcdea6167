"""The tools that brew: the only ones that can become tasks. This is what they do when they do
not."""

from typing import Final

from tests.peers.demo import content, questions
from tests.peers.demo.brew import Brew
from tests.peers.demo.calls import Call, Tool
from tests.peers.demo.faults import Fault, Unanswered
from tests.peers.demo.listing import READ_ONLY, descriptor
from tests.peers.demo.revisions import Json

CUPS_MAX: Final = 1000  # Bounds the steps that are taken at once when somebody waits for the end.

_CUPS: Final[Json] = {"type": "integer", "default": 1, "minimum": 1, "maximum": CUPS_MAX}
_NO: Final[Json] = {"type": "boolean", "default": False}


async def _brew(call: Call, given: Json) -> Json:
    """All at once, for those who wait."""
    brew, told = Brew(**given), None
    for filled in range(1, brew.cups + 1):
        call.progress(filled, brew.cups, brew.progress(filled))
        if brew.ask and filled == 1:
            if "form" not in call.revision.elicitation_modes:
                return content.failure(f"Revision {call.revision.name} has no elicitation")
            try:
                told = await call.ask(questions.sugar(call.revision))
            except Unanswered as error:
                return content.failure(str(error))
    if brew.hold:
        await call.server_state.closing.wait()
    outcome = brew.outcome(told)
    if isinstance(outcome, Fault):
        raise outcome
    return outcome


def _tool(name: str, says: str, support: str) -> Tool:
    given = {"cups": _CUPS, "ask": _NO, "fail": _NO, "broken": _NO, "hold": _NO}
    schema = {"type": "object", "properties": given}
    execution = {"taskSupport": support}
    return Tool(
        descriptor=descriptor(name, says, schema, READ_ONLY, execution=execution),
        run=_brew,
        begin=lambda call, given: call.start_task(Brew(**given)),
    )


BREW_TOOLS: Final = {
    "brew": _tool("brew", "Brews coffee, as a task for those who know tasks.", "optional"),
    "brew_only": _tool("brew_only", "Brews coffee, as a task and in no other way.", "required"),
}
