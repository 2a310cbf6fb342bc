"""Running a user's model function and `torch.export`: the only place where user code runs."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import read_input_text

_RETURNS = "it must return (torch.nn.Module, example_inputs), or what torch.export gave"
_INPUTS = "give a tensor, a tuple of positional or a dict of keyword arguments"


def export(path: str, function: str | None) -> ExportedProgram:
    """Call `function` of the file and export the model that it returns, in evaluation mode, unless that is exported already.

    Raises InputError naming the file and line of whatever fails in it.
    """
    text = read_input_text(path)
    names = _functions(path, text)
    if not function:
        raise InputError(
            "which function of this file returns the model?",
            location=Location(path),
            hint=f"write {path}:{names[0] if names else 'FUNCTION'}; {_RETURNS}",
        )
    with quiet():
        module = run_file(path)
        if not callable(getattr(module, function, None)):
            raise InputError(
                f"no function '{function}' here", location=Location(path), hint=did_you_mean(function, names)
            )
        line = _line_of(getattr(module, function))
        try:
            result = getattr(module, function)()
        except (Exception, SystemExit) as error:
            raise _user_error(path, error, f"'{function}' failed", line) from None
        if isinstance(result, ExportedProgram):
            return result
        model, inputs = _unpack(path, line, function, result)
        try:
            return _trace(model, *inputs)
        except (Exception, SystemExit) as error:
            raise _user_error(
                path, error, f"torch.export cannot trace the model of '{function}'", line
            ) from None


def export_module(model: torch.nn.Module, inputs: object) -> ExportedProgram:
    """Export a model that is already there, in evaluation mode, in which it does not stay.

    Args:
        inputs: a tensor, a tuple of positional or a dict of keyword arguments.

    Raises InputError for other inputs, and for a model that cannot be traced.
    """
    what = type(model).__name__
    arguments = _arguments(inputs)
    if arguments is None:
        raise InputError(f"the example inputs of {what} are {type(inputs).__name__}", hint=_INPUTS)
    modes = {part: part.training for part in model.modules()}
    try:
        with quiet():
            return _trace(model, *arguments)
    except (Exception, SystemExit) as error:
        lines = [text.strip() for text in str(error).splitlines() if text.strip()]
        reason = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
        raise InputError(f"torch.export cannot trace {what}: {reason}") from None
    finally:
        for part, training in modes.items():
            part.training = training


def _trace(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    if any(p.is_meta for p in model.parameters()):
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, kwargs))
    # What was exported before, as a quantiser gives it, has no other mode, and refuses to be asked.
    model = model if isinstance(model, torch.fx.GraphModule) else model.eval()
    with torch.no_grad():
        return torch.export.export(model, args, kwargs)


def _functions(path: str, text: str) -> list[str]:
    """Functions at the top level, found without running anything."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InputError(
            f"this is not Python: {error.msg}", location=Location(path, error.lineno, error.offset)
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"this is not Python: {error}", location=Location(path)) from None
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what user code prints out of results, and torch's warnings off the screen."""
    level = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(level)


def run_file(path: str) -> Any:
    """Execute the file as a module, which is returned; modules beside it can be imported.

    Raises InputError naming the line of whatever fails in it.
    """
    folder = str(Path(path).resolve().parent)
    spec = importlib.util.spec_from_file_location(f"_baco_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InputError("this file cannot be imported", location=Location(path))
    module = importlib.util.module_from_spec(spec)
    # Classes defined in the file must be found under their module's name, or dataclasses fail.
    sys.modules[module.__name__] = module
    if folder not in sys.path:
        # Last, so that nothing of ours is shadowed; left there for imports inside functions.
        sys.path.append(folder)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # no `__pycache__` beside the user's file
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _user_error(path, error, "running this file failed", None) from None
    finally:
        sys.dont_write_bytecode = before
    return module


def _line_of(function: Any) -> int | None:
    try:
        return inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return None


def _unpack(
    path: str, line: int | None, function: str, result: Any
) -> tuple[torch.nn.Module, tuple[tuple[Any, ...], dict[str, Any]]]:
    here = Location(path, line)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise InputError(f"'{function}' returned {type(result).__name__}", location=here, hint=_RETURNS)
    model, inputs = result
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            f"'{function}' returned {type(model).__name__} for the model", location=here, hint=_RETURNS
        )
    arguments = _arguments(inputs)
    if arguments is None:
        raise InputError(
            f"'{function}' returned {type(inputs).__name__} for the example inputs",
            location=here,
            hint=_INPUTS,
        )
    return model, arguments


def _arguments(inputs: object) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Positional and keyword arguments; None for what is neither."""
    if isinstance(inputs, dict):
        return (), inputs
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return ((inputs,), {}) if isinstance(inputs, torch.Tensor) else None


def _user_error(path: str, error: BaseException, what: str, line: int | None) -> InputError:
    """One message with the innermost line of the user's file that took part."""
    if isinstance(error, InputError):
        return error
    own = str(Path(path).resolve())
    link: BaseException | None = error
    while link is not None:
        frames = [
            f for f in traceback.extract_tb(link.__traceback__) if str(Path(f.filename).resolve()) == own
        ]
        if frames:
            line = frames[-1].lineno
            break
        link = link.__cause__ or link.__context__
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    reason = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    return InputError(f"{what}: {reason}", location=Location(path, line))
