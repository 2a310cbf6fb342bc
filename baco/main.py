"""The command line: `baco` and its shorthand `explore`."""

from __future__ import annotations

import errno
import functools
import gc
import importlib
import io
import os
import sys
import tempfile
import traceback
from typing import Any

#: Exit codes: a mistake the user can mend, a mistake of ours, an interruption (as shells report it).
USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130
#: Failures of the system that are no mistake of ours, wherever they strike.
_NO_SPACE_OR_RIGHTS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
}
#: What is wrong with a name that a user gave, wherever it is first used.
_BAD_NAMES = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EILSEQ}

#: Commands in the order that `baco --help` lists them in, each with the function that it is.
COMMANDS = {
    "explore": "baco.commands.explore:explore",
    "validate": "baco.commands.validate:validate",
    "compare": "baco.commands.compare:compare",
    "evaluate": "baco.commands.evaluate:evaluate",
    "networks": "baco.commands.networks:networks",
    "fuse": "baco.commands.fuse:fuse",
    "plan": "baco.commands.plan:plan",
    "profile": "baco.commands.profile:profile",
    "report": "baco.commands.report:report",
    "init": "baco.commands.init:init",
    "rtl": "baco.commands.rtl:rtl",
    "synth": "baco.commands.synth:synth",
    "technology": "baco.commands.technology:technology",
    "isa": "baco.commands.isa:isa",
    "export-chipyard": "baco.commands.export_chipyard:export_chipyard",
    "compile": "baco.commands.compile:compile_",
    "run": "baco.commands.run:run_program",
    "opt": "baco.commands.opt:opt",
    "simulate": "baco.commands.simulate:simulate",
    "trace": "baco.commands.trace:trace",
    "cosim": "baco.commands.cosim:cosim",
    "mcp": "baco.commands.mcp:mcp",
    "doctor": "baco.commands.doctor:doctor",
    "completion": "baco.commands.completion:completion",
}


def main() -> None:
    """Entry point of `baco`."""
    _process("baco")


def explore_main() -> None:
    """Entry point of `explore`, which is `baco explore`."""
    _process("explore")


def _process(program: str) -> None:
    """This process is the command line alone."""
    from baco.common.processes import collect_seldom

    collect_seldom()
    code = run(program, sys.argv[1:])
    gc.freeze()  # all memory is given back at once: nothing need be looked for in it
    sys.exit(code)


def run(program: str, arguments: list[str]) -> int:
    """Run one command line and return its exit code; every error becomes one message on standard error.

    Args:
        program: `baco`, or `explore` for the shorthand.
        arguments: what follows the program's name.
    """
    from baco.common.door import at_command_line
    from baco.common.provenance import command_line

    for stream in (sys.stdout, sys.stderr):
        # names of files need not be UTF-8, and terminals not know our signs: they are shown as escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    command = command_line([program, *arguments])
    if f"_{program.upper()}_COMPLETE" in os.environ:  # a shell asks, see `baco completion`
        importlib.import_module("typer.completion").completion_init()
    with at_command_line():
        return _ended(program, arguments, command)


def _ended(program: str, arguments: list[str], command: str) -> int:
    """Exit code of a command line; every error becomes one message."""
    from baco.common.errors import BacoError, StoppedError

    try:
        code = _app(program)(arguments, prog_name=program, standalone_mode=False, obj=command)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except StoppedError as error:
        return _fail(str(error), INTERRUPTED)
    except BacoError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output has left: nothing to tell, and nobody to tell it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERNAL_ERROR
    except Exception as error:
        return _exit_code(error, command)


@functools.cache
def _app(program: str) -> Any:
    """What typer makes of all commands."""
    from baco.cli.groups import command_named, group_of
    from baco.commands.root import bench, model, root

    if program == "explore":
        return command_named(program, COMMANDS[program])
    groups = {
        "bench": lambda: group_of("bench", bench, lambda: _commands_of_bench().BENCH),
        "model": lambda: group_of("model", model, lambda: _commands_of_bench().MODEL),
    }
    return group_of(program, root, lambda: COMMANDS | groups)


def _commands_of_bench() -> Any:
    """Tables of commands that only a checkout has."""
    return importlib.import_module("baco.bench.commands")


def _exit_code(error: Exception, command: str) -> int:
    """Exit code of an exception that is not one of ours, its message printed."""
    names = {cls.__name__ for cls in type(error).__mro__}
    # typer carries its own copy of click since 0.26, so its exceptions are known by name
    if "ClickException" in names:
        return _usage(error)
    if "Abort" in names:
        return _fail("interrupted", INTERRUPTED)
    if "Exit" in names:
        return int(getattr(error, "exit_code", 0))
    if isinstance(error, OSError) and error.errno in _BAD_NAMES and error.filename is not None:
        from baco.common.errors import InputError, Location

        reason = (error.strerror or str(error)).lower()
        return _fail(
            str(InputError(f"no file can be used here: {reason}", location=Location(str(error.filename))))
        )
    if isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith("baco.bench."):
        return _fail(
            "this makes figures of baco's documentation, which only a checkout of its repository does\n"
            "  hint: clone it, and `pip install -e .` there"
        )
    # PyTorch has no type of its own for this on the CPU
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return _fail(
            "there is not enough memory for this\n  hint: ask for less at once: fewer or smaller networks"
        )
    if isinstance(error, OSError) and error.errno in _NO_SPACE_OR_RIGHTS:
        from baco.common.files import storage_error

        return _fail(str(storage_error(error, str(error.filename or "a file"))))
    path = _log(error, command)
    return _fail(
        f"internal error: {type(error).__name__}: {_first_line(error)}\n"
        f"  hint: this is a mistake in baco; please report it with the file {path}",
        INTERNAL_ERROR,
    )


def _usage(error: Exception) -> int:
    """A mistake in the command line itself, as the parser found it."""
    from baco.common.text import one_line

    text = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "baco"
    text = text[:1].lower() + text[1:].rstrip(".") if not text.startswith("'") else text
    return _fail(f"{one_line(text, 1000)}\n  hint: see '{path} --help'")


def _fail(message: str, code: int = USER_ERROR) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"error: {message}\n")
    return code


def _first_line(error: Exception) -> str:
    from baco.common.text import one_line

    return one_line((str(error).strip().splitlines() or ["(no message)"])[0], 300)


def _log(error: Exception, command: str) -> str:
    """Write what is needed to find the mistake to a file, and name it."""
    from baco.common.provenance import platform_record, versions

    text = "".join(traceback.format_exception(error))
    content = f"{command}\n{versions()}\n{platform_record()}\n\n{text}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="baco-error-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(content)
        return file.name
    except OSError:
        sys.stderr.write(content)
        return "(not written: see above)"
