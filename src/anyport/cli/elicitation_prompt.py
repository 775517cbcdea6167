"""Asks the person at the terminal to fill in a form (`elicitation/create`), field by field.

The schema of a form is flat: strings, numbers, booleans and choices.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from anyport.record.redact.escape import make_printable

LINE_BYTES: Final = 4096
"""The longest line that a terminal passes on in canonical mode."""


def is_interactive() -> bool:
    """Whether a person can read and answer prompts."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


async def read_line(prompt: str) -> str | None:
    """Read a line without blocking the event loop; None at the end of the input."""
    sys.stderr.write(make_printable(prompt))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line_read: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def on_readable() -> None:
        if not line_read.done():
            line_read.set_result(os.read(descriptor, LINE_BYTES))

    loop.add_reader(descriptor, on_readable)
    try:
        line = await line_read
    finally:
        loop.remove_reader(descriptor)
    if not line:
        sys.stderr.write("\n")
        return None
    return line.decode("utf-8", "replace").strip()


ReadLine: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Takes a prompt, returns a line; None at the end of the input."""

PrintLine: TypeAlias = Callable[[str], None]

_BOOLEANS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_ACTIONS: Final = {
    "accept": ("", "y", "yes"),
    "decline": ("d", "decline", "n", "no"),
    "cancel": ("c", "cancel"),
}
_NUMBERS: Final = {"integer": "an integer", "number": "a number"}


class InvalidAnswer(ValueError):
    """An answer that does not fit the field; the text says what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form."""

    name: str
    schema: dict[str, Any]
    required: bool

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The allowed values with their titles; empty if any value is allowed."""
        schema = self.schema
        if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            schema = schema["items"]
        titled = schema.get("oneOf") or schema.get("anyOf")
        if titled:
            return [(str(each["const"]), str(each.get("title", each["const"]))) for each in titled]
        values = [str(value) for value in schema.get("enum") or ()]
        titles = schema.get("enumNames") or values
        return list(zip(values, map(str, titles), strict=False))

    @property
    def prompt(self) -> str:
        kind = str(self.schema.get("type", "string"))
        if kind == "boolean":
            kind = "yes or no"
        elif self.choices:
            kind = (
                "one of the above" if kind != "array" else "any of the above, separated by commas"
            )
        notes = [kind] if self.required else [kind, "optional"]
        if "default" in self.schema:
            notes.append(f"Enter for {msgspec.json.encode(self.schema['default']).decode()}")
        return f"  {self.schema.get('title') or self.name} ({', '.join(notes)}): "

    def parse(self, text: str) -> Any:
        """Convert text to a value of the field.

        Raises:
            InvalidAnswer: it does not fit.
        """
        kind = self.schema.get("type", "string")
        if kind == "boolean":
            if text.lower() not in _BOOLEANS:
                raise InvalidAnswer("answer yes or no")
            return _BOOLEANS[text.lower()]
        if kind in _NUMBERS:
            return self._parse_number(text, kind)
        if kind == "array":
            return [self._parse_choice(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._parse_choice(text)
        self._check_range(len(text), "minLength", "maxLength", " characters")
        return text

    def _parse_number(self, text: str, kind: str) -> int | float:
        try:
            value = msgspec.json.decode(text, type=int if kind == "integer" else int | float)
        except msgspec.DecodeError:
            raise InvalidAnswer(f"answer with {_NUMBERS[kind]}") from None
        self._check_range(value, "minimum", "maximum", "")
        number: int | float = value
        return number

    def _parse_choice(self, text: str) -> str:
        """A choice by its value, its title or its number."""
        for number, (value, title) in enumerate(self.choices, start=1):
            if text in (value, title, str(number)):
                return value
        raise InvalidAnswer("choose one of the above, by name or by number")

    def _check_range(self, size: float, least: str, most: str, unit: str) -> None:
        if least in self.schema and size < self.schema[least]:
            raise InvalidAnswer(f"at least {self.schema[least]}{unit}")
        if most in self.schema and size > self.schema[most]:
            raise InvalidAnswer(f"at most {self.schema[most]}{unit}")


async def fill_in_form(
    question: dict[str, Any], read: ReadLine, print_line: PrintLine
) -> dict[str, Any]:
    """Ask the person to fill in a form; the result of `elicitation/create`."""
    print_line(f"The server asks: {question.get('message', '')}")
    action = await _ask_action(read, print_line)
    if action != "accept":
        return {"action": action}
    content: dict[str, Any] = {}
    for field in _form_fields(question.get("requestedSchema") or {}):
        answer = await _ask_field(field, read, print_line)
        if answer is None:
            return {"action": "cancel"}
        content |= answer
    return {"action": "accept", "content": content}


async def _ask_action(read: ReadLine, print_line: PrintLine) -> str:
    while True:
        word = await read("  Answer? [Y]es, [d]ecline, [c]ancel: ")
        if word is None:
            return "cancel"
        for action, words in _ACTIONS.items():
            if word.lower() in words:
                return action
        print_line("    answer y, d or c; the form comes next")


async def _ask_field(
    field: FormField, read: ReadLine, print_line: PrintLine
) -> dict[str, Any] | None:
    """The field with its value; empty if it was skipped, None if the person cancelled."""
    if field.schema.get("description"):
        print_line(f"  {field.schema['description']}")
    for number, (value, title) in enumerate(field.choices, start=1):
        print_line(
            f"    {number}. {title}" if title == value else f"    {number}. {title} ({value})"
        )
    while True:
        text = await read(field.prompt)
        if text is None:
            return None
        if not text and "default" in field.schema:
            return {field.name: field.schema["default"]}
        if not text and not field.required:
            return {}
        try:
            if text or field.schema.get("type", "string") == "array":
                return {field.name: field.parse(text)}
            raise InvalidAnswer("an answer is required; press Ctrl-D to cancel")
        except InvalidAnswer as error:
            print_line(f"    {error}")


def _form_fields(schema: dict[str, Any]) -> list[FormField]:
    required = schema.get("required") or ()
    return [
        FormField(name=name, schema=each, required=name in required)
        for name, each in (schema.get("properties") or {}).items()
        if isinstance(each, dict)
    ]
