"""One tool, described for people: what it does, what it takes, and how to call it."""

import shlex
from typing import Any, Final

import msgspec

from anyport.cli.arguments import Parameter, example_words, parameters
from anyport.cli.render import clean, out, table
from anyport.record.text import printable

TITLES: Final = ("ARGUMENT", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION")
WHOLE: Final = ("ARGUMENT", "REQUIRED")


def out_sheet(tool: dict[str, Any], owner: str) -> None:
    """Print everything a person needs to call a tool."""
    name, schema = str(tool["name"]), tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    out(printable(f"{name}, of {owner}"))
    told = tool.get("description") or tool.get("title")
    if told:
        out(clean(str(told).strip()))
    out("")
    known = parameters(schema)
    if known:
        table(TITLES, [_row(each) for each in known], whole=WHOLE)
    else:
        out("It takes no arguments.")
    out("")
    out(printable(" ".join(["Example: anyport call", shlex.quote(name), *example_words(schema)])))


def _row(parameter: Parameter) -> tuple[str, ...]:
    schema = parameter.schema
    choices = schema.get("enum")
    kind = " or ".join(parameter.types) or "any"
    return (
        parameter.name,
        " | ".join(map(_written, choices)) if isinstance(choices, list) else kind,
        "yes" if parameter.required else "no",
        _written(schema["default"]) if "default" in schema else "",
        " ".join(str(schema.get("description") or schema.get("title") or "").split()),
    )


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
