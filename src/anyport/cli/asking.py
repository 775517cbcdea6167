"""A server's form, put to a person field by field.

The schema of a form is flat: its fields are texts, numbers, switches and choices. Where answers
come from, and where words go, are arguments.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

Read: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Takes a prompt, gives a line; None when there will be no more."""

Tell: TypeAlias = Callable[[str], None]

_SWITCH: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_ACTIONS: Final = {
    "accept": ("", "y", "yes"),
    "decline": ("d", "decline", "n", "no"),
    "cancel": ("c", "cancel"),
}
_NUMBERS: Final = {"integer": "an integer", "number": "a number"}


class Unfit(ValueError):
    """An answer that does not fit the field; the text says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing a form asks for."""

    name: str
    schema: dict[str, Any]
    required: bool

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The values there are to choose from, with what they are called."""
        schema = self.schema
        if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            schema = schema["items"]
        named = schema.get("oneOf") or schema.get("anyOf")
        if named:
            return [(str(each["const"]), str(each.get("title", each["const"]))) for each in named]
        values = [str(value) for value in schema.get("enum") or ()]
        titles = schema.get("enumNames") or values
        return list(zip(values, map(str, titles), strict=False))

    @property
    def prompt(self) -> str:
        """What the person is asked."""
        kind = str(self.schema.get("type", "string"))
        if kind == "boolean":
            kind = "yes or no"
        elif self.choices:
            kind = "one of the above" if kind != "array" else "any of the above, with commas"
        notes = [kind] if self.required else [kind, "optional"]
        if "default" in self.schema:
            notes.append(f"Enter for {msgspec.json.encode(self.schema['default']).decode()}")
        return f"  {self.schema.get('title') or self.name} ({', '.join(notes)}): "

    def read(self, text: str) -> Any:
        """The value that the text means.

        Raises:
            Unfit: it means none that the field can have.
        """
        kind = self.schema.get("type", "string")
        if kind == "boolean":
            if text.lower() not in _SWITCH:
                raise Unfit("answer yes or no")
            return _SWITCH[text.lower()]
        if kind in _NUMBERS:
            return self._number(text, kind)
        if kind == "array":
            return [self._choice(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._choice(text)
        self._judge(len(text), "minLength", "maxLength", " characters")
        return text

    def _number(self, text: str, kind: str) -> int | float:
        try:
            value = msgspec.json.decode(text, type=int if kind == "integer" else int | float)
        except msgspec.DecodeError:
            raise Unfit(f"answer with {_NUMBERS[kind]}") from None
        self._judge(value, "minimum", "maximum", "")
        number: int | float = value
        return number

    def _choice(self, text: str) -> str:
        """A choice may be given by its value, by what it is called, or by its number."""
        for number, (value, title) in enumerate(self.choices, start=1):
            if text in (value, title, str(number)):
                return value
        raise Unfit("choose one of the above, by name or by number")

    def _judge(self, size: float, least: str, most: str, unit: str) -> None:
        if least in self.schema and size < self.schema[least]:
            raise Unfit(f"at least {self.schema[least]}{unit}")
        if most in self.schema and size > self.schema[most]:
            raise Unfit(f"at most {self.schema[most]}{unit}")


async def fill_in(question: dict[str, Any], read: Read, tell: Tell) -> dict[str, Any]:
    """The result of `elicitation/create`: what the person answers, or that they do not."""
    tell(f"The server asks: {question.get('message', '')}")
    action = await _action(read, tell)
    if action != "accept":
        return {"action": action}
    content: dict[str, Any] = {}
    for field in _fields(question.get("requestedSchema") or {}):
        answer = await _ask(field, read, tell)
        if answer is None:
            return {"action": "cancel"}
        content |= answer
    return {"action": "accept", "content": content}


async def _action(read: Read, tell: Tell) -> str:
    """Whether the person answers at all."""
    while True:
        word = await read("  Answer? [Y]es, [d]ecline, [c]ancel: ")
        if word is None:
            return "cancel"
        for action, words in _ACTIONS.items():
            if word.lower() in words:
                return action
        tell("    answer with y, d or c; the form comes after that")


async def _ask(field: Field, read: Read, tell: Tell) -> dict[str, Any] | None:
    """The field with its value, or nothing for a field left out; None when it was cancelled."""
    if field.schema.get("description"):
        tell(f"  {field.schema['description']}")
    for number, (value, title) in enumerate(field.choices, start=1):
        tell(f"    {number}. {title}" if title == value else f"    {number}. {title} ({value})")
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
                return {field.name: field.read(text)}
            raise Unfit("an answer is needed; Ctrl-D cancels")
        except Unfit as objection:
            tell(f"    {objection}")


def _fields(schema: dict[str, Any]) -> list[Field]:
    required = schema.get("required") or ()
    return [
        Field(name=name, schema=each, required=name in required)
        for name, each in (schema.get("properties") or {}).items()
        if isinstance(each, dict)
    ]
