"""Python processes beside this one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: Libraries that start a thread a core unless told otherwise.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def python_children(*, single_threads: bool = False) -> Iterator[None]:
    """For Python processes started inside, by multiprocessing too: what lies in the current folder is no module.

    Started with code on their command line, as multiprocessing does, they would look there first, and run a file
    `struct.py` that somebody left beside the user's networks.

    Args:
        single_threads: one thread for numerical libraries, unless the user decided.
    """
    wanted = {"PYTHONSAFEPATH": "1"}
    if single_threads:
        wanted |= {name: "1" for name in _THREADS if name not in os.environ}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def collect_seldom() -> None:
    """For a process of ours: look for garbage in cycles less often than Python does.

    A search keeps millions of objects, and what it drops is in no cycles: Python would go through all it keeps again and again, which takes
    a tenth of its time.
    """
    gc.set_threshold(20_000, 20, 20)


def processors() -> int:
    """Of this machine, as many as this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(1, len(affinity(0)) if affinity else (os.cpu_count() or 1))
