"""The page about the rules of `anyport lint` lists each of them, as it is."""

import re
from pathlib import Path
from typing import Final

from anyport.lint.model import Depth
from anyport.lint.rules import RULES

PAGE: Final = (Path(__file__).parents[2] / "docs" / "reference" / "lint-rules.md").read_text(
    "utf-8"
)
NEEDS: Final = {
    Depth.NOTED: "anything",
    Depth.SHAPE: "`shape`",
    Depth.FULL: "`full`",
    Depth.FRAMES: "messages",
}


def test_every_rule_is_on_the_page_as_it_is() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (error|warning|note) \| (.*) \|$", PAGE, re.MULTILINE)

    assert [(id, severity, rest) for id, severity, rest in rows] == [
        (
            rule.id,
            rule.severity.value,
            f"{NEEDS[rule.needs]} | {rule.title} | {rule.advice} | {rule.source}",
        )
        for rule in RULES
    ]
