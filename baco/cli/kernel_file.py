"""Kernels out of a Python file that is not executed.

Of the file only this is looked at: imports of baco, numpy and torch, constants written as literals, and functions
decorated by `@baco.jit`. Function bodies are compiled by the block language, which never runs them either.
"""

from __future__ import annotations
import __future__

import ast
import copy
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import read_input_text
from baco.compiler.language.source import showing_line

if TYPE_CHECKING:
    from baco.compiler.language.jit import Kernel


#: Of a file with kernels.
_MOST_BYTES = 1 << 18


@dataclass(frozen=True)
class KernelInFile:
    """A kernel, and what the file says of its launches.

    Attributes:
        configs: constants of each `baco.Config` of its `@baco.autotune`; None without one.
        grid: what the file's `grid(meta)` returns, or its `grid = lambda meta: ...`; None without one.
    """

    kernel: Kernel
    configs: tuple[dict[str, Any], ...] | None
    grid: ast.expr | None

    def configured(self) -> Kernel:
        """The kernel as its decorators make it. Raises KernelError for configurations that do not fit it."""
        from baco.compiler.language.autotune import Config, autotune

        if self.configs is None:
            return self.kernel
        return autotune([Config(one) for one in self.configs])(self.kernel)


def kernel_in_file(path: Path, name: str) -> KernelInFile:
    """The kernel `name` of a file, with its configurations and its grid.

    Raises InputError, with the line, for a file that is no Python, a function that is missing or no kernel, and a
    default value or a configuration that is no literal.
    """
    text = read_input_text(path, limit_bytes=_MOST_BYTES)
    with _python_errors(path):
        tree = ast.parse(text, str(path))
    reader = _Reader(path)
    for statement in tree.body:
        reader.read(statement)
    if name in reader.kernels:
        return KernelInFile(reader.kernels[name], reader.configs.get(name), reader.grid)
    if name in reader.functions:
        raise InputError(
            f"the function '{name}' is no kernel",
            location=Location(str(path), reader.functions[name]),
            hint="put @baco.jit above it",
        )
    hint = did_you_mean(name, reader.kernels) if reader.kernels else "put @baco.jit above a function"
    raise InputError(f"there is no kernel '{name}'", location=Location(str(path)), hint=hint)


@contextmanager
def _python_errors(path: Path) -> Iterator[None]:
    """Errors of Python's parser and compiler, as they are for the user: with the line, and marked in it."""
    try:
        yield
    except SyntaxError as error:
        place = Location(str(path), error.lineno, error.offset)
        raise showing_line(InputError(f"this is no Python: {error.msg}", location=place)) from None
    except (RecursionError, MemoryError):
        raise InputError("the file is nested too deeply", location=Location(str(path))) from None
    except (ValueError, OverflowError) as error:
        raise InputError(f"this is no Python: {error}", location=Location(str(path))) from None


def _interface() -> Any:
    """What `import baco` gives the user's file: looked up by name, as the file itself would do it, since the front
    door stands above the command line."""
    return importlib.import_module("baco")


class _Reader:
    """Collects what a file defines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scope: dict[str, Any] = {"__name__": path.stem}
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, int] = {}
        self.configs: dict[str, tuple[dict[str, Any], ...]] = {}
        self.grid: ast.expr | None = None

    def read(self, statement: ast.stmt) -> None:
        """Take what a statement of the file defines, if it is of a kind that kernels can see."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "baco.language" and alias.asname:
                    self.scope[alias.asname] = _interface().language
                elif alias.name in ("baco", "baco.language", "numpy"):
                    self.scope[alias.asname or alias.name.partition(".")[0]] = __import__(alias.name)
        elif isinstance(statement, ast.ImportFrom) and statement.module in ("baco", "baco.language"):
            self._names_of_baco(statement)
        elif isinstance(statement, ast.Assign):
            if isinstance(statement.value, ast.Lambda) and _named(statement.targets) == "grid":
                self.grid = statement.value.body
            self._constant(statement.targets, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._constant([statement.target], statement.value)
        elif isinstance(statement, ast.FunctionDef):
            self.functions[statement.name] = statement.lineno
            if statement.name == "grid" and isinstance(statement.body[-1], ast.Return):
                self.grid = statement.body[-1].value
            if any(self._is_jit(one) for one in statement.decorator_list):
                self._kernel(statement)

    def _read_configs(self, function: ast.FunctionDef) -> None:
        """The configurations of `@baco.autotune(configs=[baco.Config({...}), ...])`."""
        for one in function.decorator_list:
            called = one.func if isinstance(one, ast.Call) else None
            if not isinstance(one, ast.Call) or _last_name(called) != "autotune":
                continue
            given = next((key.value for key in one.keywords if key.arg == "configs"), None)
            given = one.args[0] if given is None and one.args else given
            listed = given.elts if isinstance(given, ast.List | ast.Tuple) else [given or one]
            found = []
            for config in listed:
                try:
                    if not isinstance(config, ast.Call) or _last_name(config.func) != "Config":
                        raise ValueError
                    constants = ast.literal_eval((config.args or [key.value for key in config.keywords])[0])
                    found.append({str(key): value for key, value in constants.items()})
                except (ValueError, TypeError, SyntaxError, AttributeError, IndexError):
                    raise showing_line(
                        InputError(
                            f"the configurations of kernel '{function.name}' are not written out",
                            location=self._at(config),
                            hint='write configs=[baco.Config({"BM": 64, ...}), ...]: the file is read, not executed',
                        )
                    ) from None
            self.configs[function.name] = tuple(found)

    def _names_of_baco(self, statement: ast.ImportFrom) -> None:
        baco = _interface()
        for alias in statement.names:
            name, module = alias.name, baco if statement.module == "baco" else baco.language
            if name.startswith("_") or not hasattr(module, name):
                raise InputError(
                    f"{statement.module} has no name '{name}'",
                    location=self._at(statement),
                    hint=did_you_mean(name, {*dir(baco), *dir(baco.language)}),
                )
            self.scope[alias.asname or name] = getattr(module, name)

    def _constant(self, targets: list[ast.expr], value: ast.expr) -> None:
        try:
            number = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return  # a kernel that uses it will say that the name is unknown
        for target in targets:
            if isinstance(target, ast.Name):
                self.scope[target.id] = number

    def _is_jit(self, decorator: ast.expr) -> bool:
        """Whether it is `jit` of baco or of `baco.language`, by whatever name."""
        baco = _interface()
        if isinstance(decorator, ast.Name):
            return self.scope.get(decorator.id) is baco.jit
        if not isinstance(decorator, ast.Attribute) or decorator.attr != "jit":
            return False
        owner = decorator.value
        if (
            isinstance(owner, ast.Attribute)
            and owner.attr == "language"
            and isinstance(owner.value, ast.Name)
        ):
            return self.scope.get(owner.value.id) is baco
        return isinstance(owner, ast.Name) and self.scope.get(owner.id) in (baco, baco.language)

    def _kernel(self, function: ast.FunctionDef) -> None:
        """Define the function, which runs nothing of it: no decorators, only literals as defaults."""
        baco = _interface()

        for default in (*function.args.defaults, *function.args.kw_defaults):
            if default is None:
                continue
            try:
                ast.literal_eval(default)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                raise InputError(
                    f"a default value of kernel '{function.name}' is no literal",
                    location=self._at(default),
                    hint="write a number, or give the argument by --arg",
                ) from None
        plain = copy.copy(function)
        plain.decorator_list = []
        with _python_errors(self.path):
            code = compile(
                ast.Module([plain], []), str(self.path), "exec", flags=__future__.annotations.compiler_flag
            )
        exec(code, self.scope)  # defines the function; its annotations stay text
        kernel = baco.jit(self.scope[function.name])
        self.scope[function.name] = self.kernels[function.name] = kernel
        self._read_configs(function)

    def _at(self, node: ast.stmt | ast.expr) -> Location:
        return Location(str(self.path), node.lineno, node.col_offset + 1)


def _named(targets: list[ast.expr]) -> str | None:
    """The name that an assignment gives, if it gives one."""
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _last_name(node: ast.expr | None) -> str | None:
    """`autotune` of `autotune` and of `baco.autotune`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
