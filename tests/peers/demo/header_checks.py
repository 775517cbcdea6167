"""Checks of the headers of a modern request against its body.

The headers are for intermediaries that do not read bodies. A server that reads both must refuse a
request in which they differ. A request without headers passes.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tests.peers.demo.calls import Request, Tool
from tests.peers.demo.faults import HEADER_MISMATCH, Fault
from tests.peers.demo.headers import Headers, unwrap

VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_HEADER: Final = "Mcp-Param-"
ANNOTATION: Final = "x-mcp-header"
"""In a tool's input schema: the argument also travels in the header of this name."""

NAMED_BY: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of params that the header `Mcp-Name` repeats, by method."""


def check_envelope(request: Request, version: str) -> None:
    """Version, method and name must be in the headers as they are in the body.

    Raises:
        Fault: one is missing, there twice, or different.
    """
    headers = request.headers
    if headers is None:
        return
    _require(_only(headers, VERSION_HEADER) == version, VERSION_HEADER)
    _require(_only(headers, METHOD_HEADER) == request.method, METHOD_HEADER)
    name = request.params.get(NAMED_BY.get(request.method, ""))
    if isinstance(name, str):
        _require(unwrap(_only(headers, NAME_HEADER)) == name, NAME_HEADER)


def check_arguments(request: Request, tools: Mapping[str, Tool]) -> None:
    """Arguments that the tool wants in headers must be there, and no others.

    Raises:
        Fault: one is missing, there twice, or different.
    """
    headers, arguments = request.headers, request.params.get("arguments", {})
    tool = tools.get(str(request.params.get("name")))
    if headers is None or tool is None or not isinstance(arguments, dict):
        return
    for name, rule in tool.descriptor["inputSchema"]["properties"].items():
        if ANNOTATION not in rule:
            continue
        header, argument = PARAM_HEADER + rule[ANNOTATION], arguments.get(name)
        if argument is None:
            _require(not headers.all(header), header)
        else:
            _require(_says(unwrap(_only(headers, header)), argument), header)


def _only(headers: Headers, name: str) -> str:
    values = headers.all(name)
    if len(values) != 1:
        count = "missing" if not values else "there more than once"
        raise Fault(HEADER_MISMATCH, f"Header mismatch: {name} is {count}")
    return values[0]


def _require(agrees: bool, name: str) -> None:
    if not agrees:
        raise Fault(HEADER_MISMATCH, f"Header mismatch: {name} differs from the body")


def _says(text: str | None, argument: Any) -> bool:
    if text is None:
        return False
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    if isinstance(argument, int | float):
        # "42.0" and 42 are the same integer.
        try:
            return Decimal(text) == Decimal(str(argument))
        except InvalidOperation:
            return False
    return isinstance(argument, str) and text == argument
