"""Operators of a user's own: `MODEL.onnx:operators=FILE.py` reads a table that says what they are in ONNX's operators.

    def twice(e):  # an `Expansion`: e.input(0), e.attribute("factor", 2.0), e.constant(...), e.shape(0)
        doubled = e.add("Add", e.input(0), e.input(0))
        e.finish("Relu", doubled)  # writes the node's output

    OPERATORS = {"com.example.Twice": twice}  # of ONNX's own domain the name alone

A rule may raise `baco.workloads.onnx.expansion.RefusedError` with the reason why a form of the operator cannot be run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from baco.common.errors import InputError, Location
from baco.common.files import read_input_text
from baco.workloads.onnx.expansion import Expansion, RefusedError
from baco.workloads.options import CODE_OPTION, split_options

Rule: TypeAlias = Callable[[Expansion], None]


def own_operators(path: str, rest: str | None) -> tuple[str | None, dict[str, Rule]]:
    """The options of a model without that of a table, and the table's rules.

    Raises InputError for a file that is missing, fails, or holds no table.
    """
    options = {} if rest is None else split_options(rest, f"{path}:{rest}")
    file = options.pop(CODE_OPTION, None)
    if file is None:
        return rest, {}
    from baco.workloads.torch.load import run_file  # torch takes seconds to import

    read_input_text(file)
    table = getattr(run_file(file), "OPERATORS", None)
    if not isinstance(table, Mapping) or not all(
        isinstance(name, str) and callable(rule) for name, rule in table.items()
    ):
        raise InputError(
            "this file holds no table of operators",
            location=Location(file),
            hint='write OPERATORS = {"domain.Name": function}, where function(e) writes a node out (docs/networks.md)',
        )
    rules: dict[str, Rule] = {str(name): partial(_apply, file, name, rule) for name, rule in table.items()}
    return ",".join(f"{name}={value}" for name, value in options.items()) or None, rules


def _apply(file: str, name: str, rule: Callable[[Expansion], Any], e: Expansion) -> None:
    """One rule for a node. Raises InputError, with the line, where the user's code fails."""
    try:
        rule(e)
    except RefusedError:
        raise
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"the rule of '{name}' fails at node '{e.node.name or e.node.op_type}': {type(error).__name__}: {error}",
            location=Location(file, line.lineno if line.filename.endswith(file.rsplit("/", 1)[-1]) else None),
        ) from None
