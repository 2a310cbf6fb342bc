"""Other processors, as far as one machine can play them: what libraries are told to leave out, and their threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.forks import Fork, fork_server

ROOT = Path(__file__).resolve().parents[2]


def _without(*features: str) -> str:
    """Features of this processor for which numpy has kernels of their own, of those whose names begin so."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]  # type: ignore[index, call-overload]
    return " ".join(one for one in found if one.startswith(features))


_X86_64_V3 = ("AVX", "FMA", "F16C", "X86_V3", "X86_V4")
_AVX512 = ("AVX512", "X86_V4")
#: Of glibc's mathematical functions.
_PLAIN_LIBM = "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"
#: Settings of the environment by processor: PyTorch's kernels, numpy's, OpenBLAS's and MKL's, glibc's, threads, and what
#: has nothing to do with processors but must not matter either.
PROCESSORS: dict[str, dict[str, str]] = {
    "this one": {"OMP_NUM_THREADS": "1"},
    "this one, two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    "no vectors": {
        "ATEN_CPU_CAPABILITY": "default",
        "NPY_DISABLE_CPU_FEATURES": _without(*_X86_64_V3),
        "OPENBLAS_CORETYPE": "Prescott",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "GLIBC_TUNABLES": _PLAIN_LIBM,
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "7",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "NPY_DISABLE_CPU_FEATURES": _without(*_AVX512),
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "8",
    },
    "wide tensors, plain arrays": {
        "NPY_DISABLE_CPU_FEATURES": _without(*_X86_64_V3),
        "OPENBLAS_CORETYPE": "Nehalem",
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "9",
    },
    "plain tensors, wide arrays": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "SSE4_2",
        "GLIBC_TUNABLES": _PLAIN_LIBM,
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "10",
    },
}


def on(processor: str, program: Path, *arguments: str, timeout: float = 280) -> str:
    """What a Python program prints on a processor. Raises AssertionError if it fails."""
    done = start(processor, program, *arguments)
    try:
        text, _ = done.communicate(timeout=timeout)
    finally:
        done.kill()
    assert done.returncode == 0, text
    return text


def start(processor: str, program: Path, *arguments: str) -> subprocess.Popen[str] | Fork:
    """A process that runs a Python program on a processor, standard error among its output."""
    if processor == "this one":
        return fork_server().start(program, arguments)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, **PROCESSORS[processor]},
    )
