"""`anyport call`: one tool, called as a client would call it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli.arguments import BadArgument, read_arguments
from anyport.cli.asking import fill_in
from anyport.cli.caller import Ask, ErrorAnswer
from anyport.cli.ending import FAILED, GOOD, CommandFailed, WrongUsage, say, talk
from anyport.cli.front import front
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.progress import ProgressLine
from anyport.cli.render import clean, out, out_json
from anyport.cli.results import first_binary, shown, size
from anyport.cli.terminal import read_line, someone_is_there

LOG_LEVELS: Final = ("info", "debug")
"""What a server is asked to tell with `-v` and with `-vv`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be called, and how."""

    name: str
    words: Sequence[str] = ()
    """`key=value` and the like."""
    document: str | None = None
    """Arguments as JSON."""
    output: Path | None = None
    """Where a picture or another file in the result goes."""
    verbose: int = 0
    """How much else is shown: nothing, progress and log messages, or all that servers log."""

    @property
    def log_level(self) -> str | None:
        return LOG_LEVELS[min(self.verbose, len(LOG_LEVELS)) - 1] if self.verbose else None


def call(given: Given, wish: Wish) -> int:
    """Call a tool and show its result; the exit code."""
    answer = run(_called(given, wish))
    if isinstance(answer, Exception):
        return _told(answer, given, wish.name)
    result = msgspec.json.decode(answer)
    if given.json:
        out_json(answer)
    if result.get("isError") is True:
        say(f"{wish.name} reports an error:")
        for line in "\n".join(shown(result)).split("\n"):
            talk(line)
        return FAILED
    if not given.json:
        for part in shown(result):
            out(part)
    if wish.output is not None:
        _write(wish.output, result)
    return GOOD


def _told(error: ErrorAnswer | CommandFailed, given: Given, name: str) -> int:
    """Tell why there is no result; the exit code."""
    if isinstance(error, ErrorAnswer):
        raw, words, code = error.raw, f"{name} failed: {error} (error {error.code})", FAILED
    else:
        raw, words, code = msgspec.json.encode({"message": str(error)}), str(error), error.code
    if given.json:
        out_json({"error": msgspec.Raw(raw)})
    say(words)
    return code


async def _called(given: Given, wish: Wish) -> bytes | ErrorAnswer | CommandFailed:
    progress = ProgressLine.on_stderr(verbose=wish.verbose > 0)
    async with front(
        given,
        ask=_ask(progress),
        on_log=_tell_log if wish.verbose else None,
        log_level=wish.log_level,
    ) as here:
        entry = await here.find(wish.name)
        if entry is None and not here.takes_any_name:
            here.tell_troubles(wish.name)
            return CommandFailed(here.explain_missing(wish.name))
        schema = {} if entry is None else msgspec.json.decode(entry.raw).get("inputSchema", {})
        try:
            arguments = read_arguments(wish.words, wish.document, schema, _read_file)
        except BadArgument as error:
            return WrongUsage(str(error))
        params = {"name": wish.name, "arguments": arguments}
        try:
            return await here.caller.request("tools/call", params, progress.tell)
        except (ErrorAnswer, CommandFailed) as error:
            return error
        finally:
            progress.clear()


def _ask(progress: ProgressLine) -> Ask | None:
    """Puts a server's questions to the person at the terminal, if there is one."""
    if not someone_is_there():
        return None

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        progress.clear()
        return await fill_in(question, read_line, talk)

    return ask


def _tell_log(params: dict[str, Any]) -> None:
    content = params.get("data")
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    for line in clean(text).split("\n"):
        talk(f"{params.get('level', 'log')}: {line}")


def _read_file(name: str) -> str:
    return Path(name).read_text("utf-8")


def _write(file: Path, result: dict[str, Any]) -> None:
    content = first_binary(result)
    if content is None:
        raise CommandFailed("the result holds nothing binary to write")
    file.write_bytes(content)
    say(f"wrote {file} ({size(len(content))})")
