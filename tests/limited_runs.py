"""Command lines run in processes of their own with little time and memory, many of them in a short time.

A helper process imports what commands need once, and is forked for every command line: a fork takes milliseconds,
and what it may add to the helper's memory, and the processor time that it may take, are limited by the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: What a command line may add to the address space of the helper, and the processor time that it may take.
MOST_BYTES, MOST_SECONDS = 2 << 30, 10
#: Wall time after which a process is ended that neither computes nor ends.
_PATIENCE_S = 120
_KEPT_CHARACTERS = 20_000
_IMPORTS = (
    *("baco.main", "baco.cli.program_input", "baco.cli.ir_input", "baco.cli.run_text"),
    *("baco.cli.kernel_input", "baco.cli.lowering", "baco.commands.opt", "baco.commands.networks"),
    *(
        "baco.language",
        "baco.compiler.dialects.context",
        "baco.compiler.codegen.program",
        "baco.compiler.codegen.layer_program",
    ),
    *("baco.compiler.choice.choose", "baco.compiler.passes.linalg_to_instgem"),
    *("baco.compiler.network.program", "baco.compiler.network.quantise", "baco.compiler.network.reference"),
    *(
        "onnx",
        "onnx.shape_inference",
        "baco.workloads.inputs.load",
        "baco.workloads.onnx.load",
        "baco.workloads.networks",
    ),
    *("xdsl.dialects.llvm", "xdsl.dialects.linalg", "xdsl.dialects.scf", "xdsl.dialects.memref"),
)


@dataclass(frozen=True)
class Ending:
    """How a command line ended.

    Attributes:
        code: its exit code; the negative number of the signal that ended it.
        out, error: what it wrote, cut after some 20,000 characters.
        seconds: of processor time, with that of the programs it started.
        peak_bytes: most memory that it had resident, with what it shares with the helper.
    """

    code: int
    out: str
    error: str
    seconds: float
    peak_bytes: int


class LimitedRuns:
    """The helper process."""

    def __init__(self) -> None:
        self._helper = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            cwd=Path(__file__).parents[1],
        )

    def run(self, arguments: Sequence[str], folder: Path) -> Ending:
        """Run `baco` with these arguments in a folder."""
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        self._helper.stdin.write(json.dumps({"arguments": list(arguments), "folder": str(folder)}) + "\n")
        self._helper.stdin.flush()
        answer = self._helper.stdout.readline()
        assert answer, "the helper process has ended"
        return Ending(**json.loads(answer))

    def close(self) -> None:
        """End the helper."""
        assert self._helper.stdin is not None
        self._helper.stdin.close()
        self._helper.wait(30)


@contextlib.contextmanager
def limited_runs() -> Iterator[LimitedRuns]:
    """A helper that ends with the block."""
    runs = LimitedRuns()
    try:
        yield runs
    finally:
        runs.close()


def _serve() -> None:
    import importlib

    for name in _IMPORTS:
        importlib.import_module(name)
    # numpy's threads and the like have begun where they will: nothing else runs while this process is forked
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            child = os.fork()
            if child == 0:
                _child(request["arguments"], request["folder"], out.fileno(), error.fileno())
            code, usage = _wait(child)
            ending = Ending(
                code,
                _start_of(out.fileno()),
                _start_of(error.fileno()),
                usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss * 1024,
            )
        sys.stdout.write(json.dumps(ending.__dict__) + "\n")
        sys.stdout.flush()


def _child(arguments: list[str], folder: str, out: int, error: int) -> None:
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(error, 2)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from baco.main import run

        code = run("baco", arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as problem:
        os.write(2, f"escaped: {type(problem).__name__}\n".encode())
    finally:
        os._exit(code)


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    until = time.monotonic() + _PATIENCE_S
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            until += _PATIENCE_S
        time.sleep(0.002)


def _start_of(file: int) -> str:
    return os.pread(file, _KEPT_CHARACTERS, 0).decode("utf-8", "replace")


if __name__ == "__main__":
    _serve()
