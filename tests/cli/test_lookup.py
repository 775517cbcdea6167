"""One tool by its name."""

import asyncio

from anyport.cli.lookup import explain_missing, find
from anyport.cli.occasion import occasion
from anyport.cli.options import Given
from anyport.cli.setup import read_setup
from tests.cli.stage import Stage


def test_a_tool_is_found_by_both_of_its_names_and_a_missing_one_explained(stage: Stage) -> None:
    stage.configure(off={"command": "x", "disabled": True})

    async def look() -> list[str]:
        async with occasion(read_setup(Given())) as here:
            for name in ("tiny__add", "add"):
                entry = await find(here, name)
                assert entry is not None
                assert entry.public == "tiny__add"
            assert await find(here, "zzz") is None
            return [explain_missing(here, name) for name in ("zzz", "pictur", "off__x")]

    assert asyncio.run(look()) == [
        "there is no tool 'zzz'; 'anyport tools' lists what there is",
        "there is no tool 'pictur'; did you mean tiny__picture?",
        "there is no tool 'off__x'; server 'off' is disabled in the configuration",
    ]
