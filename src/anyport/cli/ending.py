"""How a command ends: exit codes, and words on stderr in place of a stack trace.

Everything that ends a command other than by returning is told here, so that each command may
let it pass. What the command does is not known here.
"""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from anyport.config.faults import ConfigError
from anyport.config.schema import UnknownProfile
from anyport.record.text import printable

GOOD: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
"""128 and the number of SIGINT, as shells count."""

DEBUG_VARIABLE: Final = "ANYPORT_DEBUG"


class CommandFailed(Exception):
    """The thing asked for cannot be done; the text says why, and what to do."""

    code = FAILED


class WrongUsage(CommandFailed):
    """The command line asks for something that does not exist; the text says what does."""

    code = WRONG_USAGE


def say(text: str) -> None:
    """One line to the person who runs the command: stdout is for what was asked for."""
    talk(f"anyport: {text}")


def talk(line: str) -> None:
    """One line on stderr, as it is but for what could confuse a terminal."""
    with suppress(OSError, ValueError):  # Nobody listens; that is no reason to fail.
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def guarded(work: Callable[[], int]) -> int:
    """Run a command to its end; the exit code, whatever happens."""
    try:
        code = work()
        sys.stdout.flush()
    except ConfigError as error:
        for line in str(error).splitlines():
            talk(line)
        return FAILED
    except CommandFailed as error:
        first, *rest = str(error).split("\n")
        say(first)
        for line in rest:  # A filter, and a caret under its fault.
            talk(line)
        return error.code
    except UnknownProfile as error:
        say(str(error))
        return WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()
        return GOOD
    except Exception as error:  # noqa: BLE001 - a person is shown words, never a stack trace
        _tell_unexpected(error)
        return FAILED
    return code


def _let_go_of_stdout() -> None:
    """The reader had enough; without this the interpreter would complain at its very end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_unexpected(error: Exception) -> None:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
        return
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"{where}{error.strerror}")
        return
    # The text of an unforeseen error may quote anything, a secret too: it is left out.
    place = traceback.extract_tb(error.__traceback__)[-1].name
    say(
        f"unexpected error: {type(error).__name__} in {place}. This is a fault of Anyport: please "
        f"report it to the project, with what the command prints when {DEBUG_VARIABLE}=1 is set."
    )
