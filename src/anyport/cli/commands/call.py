"""`anyport call`: calls a tool."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.cli.arguments import BadArgument, read_arguments
from anyport.cli.connect import connect_gateway
from anyport.cli.connect.client import ElicitationHandler, ErrorAnswer
from anyport.cli.elicitation_prompt import fill_in_form, is_interactive, read_line
from anyport.cli.exit_codes import (
    FAILED,
    SUCCESS,
    CommandFailed,
    WrongUsage,
    notify_user,
    print_stderr,
    run_async,
)
from anyport.cli.options import SharedOptions
from anyport.cli.output import clean, out, out_json
from anyport.cli.results import ProgressLine, first_binary, format_bytes, render_result

LOG_LEVELS: Final = ("info", "debug")
"""With `-v` and with `-vv`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of `anyport call`."""

    name: str
    words: Sequence[str] = ()
    """`key=value`, `key:=json` and `key=@file`."""
    document: str | None = None
    """Arguments as JSON."""
    output: Path | None = None
    """Where the first binary content of the result is written."""
    verbose: int = 0
    """0: only the result; 1: progress and log messages; 2: debug messages, too."""

    @property
    def log_level(self) -> str | None:
        return LOG_LEVELS[min(self.verbose, len(LOG_LEVELS)) - 1] if self.verbose else None


def call(options: SharedOptions, call_options: CallOptions) -> int:
    """Call a tool and print its result; the exit code."""
    answer = run_async(_call_tool(options, call_options))
    if isinstance(answer, Exception):
        return _report_error(answer, options, call_options.name)
    result = msgspec.json.decode(answer)
    if options.json:
        out_json(answer)
    if result.get("isError") is True:
        notify_user(f"{call_options.name} returned an error:")
        for line in "\n".join(render_result(result)).split("\n"):
            print_stderr(line)
        return FAILED
    if not options.json:
        for part in render_result(result):
            out(part)
    if call_options.output is not None:
        _write(call_options.output, result)
    return SUCCESS


def _report_error(error: ErrorAnswer | CommandFailed, options: SharedOptions, name: str) -> int:
    """Print why there is no result; the exit code."""
    if isinstance(error, ErrorAnswer):
        raw, message, code = error.raw, f"{name} failed: {error} (error {error.code})", FAILED
    else:
        raw, message, code = msgspec.json.encode({"message": str(error)}), str(error), error.code
    if options.json:
        out_json({"error": msgspec.Raw(raw)})
    notify_user(message)
    return code


async def _call_tool(
    options: SharedOptions, call_options: CallOptions
) -> bytes | ErrorAnswer | CommandFailed:
    progress = ProgressLine.on_stderr(verbose=call_options.verbose > 0)
    async with connect_gateway(
        options,
        ask=_make_elicitation_handler(progress),
        on_log=_print_log if call_options.verbose else None,
        log_level=call_options.log_level,
    ) as gateway:
        entry = await gateway.find(call_options.name)
        if entry is None and not gateway.is_transparent:
            gateway.report_troubles(call_options.name)
            return CommandFailed(gateway.explain_missing(call_options.name))
        schema = {} if entry is None else msgspec.json.decode(entry.raw).get("inputSchema", {})
        try:
            arguments = read_arguments(
                call_options.words, call_options.document, schema, _read_file
            )
        except BadArgument as error:
            return WrongUsage(str(error))
        public_name = call_options.name if entry is None else entry.public
        params = {"name": public_name, "arguments": arguments}
        try:
            return await gateway.client.request("tools/call", params, progress.update)
        except (ErrorAnswer, CommandFailed) as error:
            return error
        finally:
            progress.clear()


def _make_elicitation_handler(progress: ProgressLine) -> ElicitationHandler | None:
    """Asks the person at the terminal; None without a terminal."""
    if not is_interactive():
        return None

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        progress.clear()
        return await fill_in_form(question, read_line, print_stderr)

    return ask


def _print_log(params: dict[str, Any]) -> None:
    content = params.get("data")
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    for line in clean(text).split("\n"):
        print_stderr(f"{params.get('level', 'log')}: {line}")


def _read_file(name: str) -> str:
    return Path(name).read_text("utf-8")


def _write(file: Path, result: dict[str, Any]) -> None:
    content = first_binary(result)
    if content is None:
        raise CommandFailed("the result has no image or file to write")
    file.write_bytes(content)
    notify_user(f"wrote {file} ({format_bytes(len(content))})")
