"""`baco mcp`: baco as tools for assistants, by the Model Context Protocol."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baco.api.assistant import Assistant


def mcp(
    folder: Path = Path("baco-assistant"),
) -> None:
    """Serve baco's functions to an assistant over standard input and output: explore, cost, compile, validate, read a study.

    Needs `pip install 'baco[mcp]'`. In the assistant's configuration: command `baco`, arguments `mcp --folder DIR`.

    Args:
        folder (DIR): The only folder whose files are read and written; made when missing.
    """
    from baco.api.assistant import Assistant

    server(Assistant(folder)).run()


def server(assistant: Assistant) -> Any:
    """The server of the official SDK with an assistant's functions. Raises InputError where the SDK is not installed."""
    from baco.common.errors import InputError
    from baco.common.provenance import versions

    try:
        try:
            from mcp.server import MCPServer as Server
            from mcp.server.mcpserver.exceptions import ToolError
        except ImportError:  # its first version
            from mcp.server.fastmcp import FastMCP as Server
            from mcp.server.fastmcp.exceptions import ToolError
    except ImportError:
        raise InputError(
            "the SDK of the Model Context Protocol is not installed", hint="pip install 'baco[mcp]'"
        ) from None
    about = (
        "baco explores accelerators for neural networks: searches for hardware and mappings, predicts costs, compiles programs and "
        f"measures them on the generated Verilog. Files lie below {assistant.folder}; paths are relative to it. "
        f"Version {versions().get('baco', 'unknown')}."
    )
    made = Server("baco", instructions=about)
    for function in assistant.tools:
        made.tool()(_said(function, ToolError))
    return made


def _said(function: Callable[..., Any], kind: type[Exception]) -> Callable[..., Any]:
    """A tool whose errors are the SDK's, with their message: it keeps what others say to itself."""

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        from baco.common.errors import BacoError

        try:
            return function(**arguments)
        except BacoError as error:
            raise kind(str(error)) from error

    return call
