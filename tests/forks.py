"""Python programs in processes of their own that begin within milliseconds.

One process imports what programs need, which takes seconds of a processor, and is forked for each of them. What is set
in the environment before libraries are loaded (the processor that they see, their threads) is that of the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[1]
_IMPORTS = (
    *("baco.main", "baco.cli.program_input", "baco.commands.explore"),
    *("baco.commands.report", "baco.commands.validate", "baco.compiler.network.program"),
    *("baco.exploration.studies.engine", "baco.exploration.measure.session", "baco.exploration.report.study_report"),
    *("baco.exploration.samplers.searchers", "baco.workloads.inputs.load", "baco.workloads.onnx.load", "onnx", "torch"),
)  # fmt: skip
#: The command line as a program that asks for a fork; what it is made with stands in its first line.
_COMMAND = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    wanted = dict(program="baco", arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ), session=False)
    socket.send_fds(server, [json.dumps(wanted).encode() + b"\\n"], [0, 1, 2])
    code = int(server.makefile().read().split()[-1])
sys.exit(code if code >= 0 else 128 - code)
"""


class Fork:
    """A program that runs, as `subprocess.Popen` shows one with both streams of its output in one pipe."""

    def __init__(self, address: str, wanted: Mapping[str, Any]) -> None:
        self.returncode: int | None = None
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it has been read
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(address)
        with open(os.devnull, "rb") as nothing:
            output = self._output.fileno()
            socket.send_fds(
                self._server, [json.dumps(wanted).encode() + b"\n"], [nothing.fileno(), output, output]
            )
        self._answers = self._server.makefile()
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, the negative number of the signal that ended it. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """All that it wrote, when it has ended."""
        self.wait(timeout)
        if self._output.closed:
            return "", None
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), size, 0).decode("utf-8", "replace")
        self._output.close()
        return text, None

    def send_signal(self, number: int) -> None:
        """Send it a signal if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that is forked."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks")
        self.address = str(Path(self._folder.name) / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the process to be forked does not start"

    def start(
        self,
        program: Path | str,
        arguments: Sequence[str],
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        session: bool = False,
    ) -> Fork:
        """Run a file, or `baco`; with what is added to the environment, and in a session of its own if asked for."""
        wanted = {
            "program": str(program),
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {**os.environ, **(environment or {})},
            "session": session,
        }
        return Fork(self.address, wanted)

    def command(self, folder: Path) -> Path:
        """Make `baco` in a folder: a program for shells that runs the command line in a fork."""
        file = folder / "baco"
        file.write_text(_COMMAND.format(python=sys.executable, address=self.address), encoding="utf-8")
        file.chmod(0o755)
        return file

    def close(self) -> None:
        """End it; what it has started goes on."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._folder.cleanup()


@functools.cache
def fork_server() -> ForkServer:
    """The one of this process, which ends with it."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _serve(address: str) -> None:
    for name in _IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what all of them share is not looked through by each
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        signal.signal(
            signal.SIGCHLD, signal.SIG_IGN
        )  # those that attend to programs leave nothing to wait for
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(connection)
            connection.close()


def _attend(connection: socket.socket) -> NoReturn:
    """Start a program, and tell its number and, when it has ended, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, *_ = socket.recv_fds(connection, 1 << 16, 3)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 16)
    child = os.fork()
    if child == 0:
        connection.close()
        _run(json.loads(message), descriptors)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        connection.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(wanted: dict[str, Any], descriptors: list[int]) -> NoReturn:
    code = 1
    try:
        if wanted["session"]:
            os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in enumerate("rww"))
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        sys.argv = [wanted["program"], *wanted["arguments"]]
        code = _code_of(wanted["program"])
        threading._shutdown()  # type: ignore[attr-defined]  # as Python does: waits for threads that are none's daemons
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _code_of(program: str) -> int:
    """Run it, and the exit code that Python would end with."""
    import runpy

    from baco.main import main

    try:
        if program == "baco":
            main()
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
