"""Runs a command: exit codes, errors as text on stderr, and the event loop.

Every exception that ends a command is handled here, so that commands can let it pass.
"""

import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from anyport.config.faults import ConfigError
from anyport.config.model import UnknownProfile
from anyport.record.redact.escape import make_printable

SUCCESS: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
"""128 + SIGINT, as in shells."""

DEBUG_VARIABLE: Final = "ANYPORT_DEBUG"

_T = TypeVar("_T")


class CommandFailed(Exception):
    """The command cannot do its work; the text says why, and what to do."""

    code = FAILED


class WrongUsage(CommandFailed):
    """The command line is wrong; the text says how, and what would be right."""

    code = WRONG_USAGE


def notify_user(text: str) -> None:
    """Print a message to stderr; stdout is for the result of the command."""
    print_stderr(f"anyport: {text}")


def print_stderr(line: str) -> None:
    """Print a line to stderr, with control characters escaped."""
    with suppress(OSError, ValueError):  # A closed stderr must not end the command.
        sys.stderr.write(f"{make_printable(line)}\n")
        sys.stderr.flush()


def run_guarded(work: Callable[[], int]) -> int:
    """Run a command, and turn every exception into an exit code and a message."""
    try:
        code = work()
        sys.stdout.flush()
    except ConfigError as error:
        for line in str(error).splitlines():
            print_stderr(line)
        return FAILED
    except CommandFailed as error:
        first, *rest = str(error).split("\n")
        notify_user(first)
        for line in rest:  # A filter, with a caret under the error.
            print_stderr(line)
        return error.code
    except UnknownProfile as error:
        notify_user(str(error))
        return WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _redirect_stdout_to_null()
        return SUCCESS
    except Exception as error:  # noqa: BLE001 - users see a message, never a stack trace
        _report_unexpected(error)
        return FAILED
    return code


def run_async(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run the asynchronous part of a command, on uvloop where it is installed.

    Raises:
        KeyboardInterrupt: on SIGINT, after the coroutine was cancelled and has cleaned up.
    """
    # Imported here: not every command has an asynchronous part.
    import asyncio  # noqa: PLC0415

    try:
        import uvloop  # noqa: PLC0415
    except ImportError:  # It does not exist for Windows.
        loop_factory = None
    else:
        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(coroutine)


def _redirect_stdout_to_null() -> None:
    """After a broken pipe, the interpreter must not fail when it flushes stdout at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_unexpected(error: Exception) -> None:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
        return
    if isinstance(error, OSError) and error.strerror:
        file_prefix = "" if error.filename is None else f"{error.filename}: "
        notify_user(f"{file_prefix}{error.strerror}")
        return
    # The text of an unexpected error may contain anything, even a secret.
    function = traceback.extract_tb(error.__traceback__)[-1].name
    notify_user(
        f"unexpected error: {type(error).__name__} in {function}. "
        "This is a bug in Anyport: please report it, with the output of the command when "
        f"{DEBUG_VARIABLE}=1 is set."
    )
