"""baco as others install it: one name, everything in it, typed, untouched by whatever lies beside a user's notebook."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Files of a user's, each with the name of something of ours, or of a folder of the repository.
NAMES = (
    *("accel", "bench", "common", "compiler", "exploration", "explore", "sim", "workloads"),
    *("api", "cli", "commands", "display", "examples", "language", "main", "tests", "results", "docs"),
)
#: What a study is made of in a moment.
TABLE = "layers:\n- {name: a, type: gemm, M: 64, K: 64, N: 64}\n"


@dataclass(frozen=True)
class Installed:
    """A wheel in an environment of its own, and the archives that it came from.

    Attributes:
        python: of the environment.
        sources: the archive of sources, from a checkout.
        wheel: made from that archive.
    """

    python: Path
    sources: Path
    wheel: Path

    def run(self, *arguments: str, folder: Path, program: str = "python") -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, nothing of ours on Python's path but what is installed."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python.with_name(program)), *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip


def _call(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "checkout"
    # what a build leaves behind stays out of the checkout
    shutil.copytree(
        ROOT, copy, symlinks=True,
        ignore=shutil.ignore_patterns(".git", ".venv", "venv", "__pycache__", ".*_cache", "*.egg-info", "build", "baco-out"),
    )  # fmt: skip
    _call(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(folder), folder=copy)
    (sources,) = folder.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    _call(
        sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), folder=unpacked
    )
    (wheel,) = folder.glob("*.whl")
    _call(sys.executable, "-m", "venv", "--without-pip", str(folder / "env"), folder=folder)
    python = folder / "env" / "bin" / "python"
    _call(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel), folder=folder)  # fmt: skip
    # what baco depends on is the tests' own; an editable baco there is found through a file that is not read from here
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "env" / "lib" / version / "site-packages" / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )
    return Installed(python, sources, wheel)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder, with a package or a file of each name, all of which would be noticed if they were imported."""
    for index, name in enumerate(NAMES):
        place = tmp_path / name / "__init__.py" if index % 2 else tmp_path / f"{name}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"raise RuntimeError('the {name} of the user')\n")
    (tmp_path / "table.yaml").write_text(TABLE)
    return tmp_path


def _package_files(root: Path) -> set[str]:
    """Files below `baco/` that a wheel has to hold: all that is not written by Python or belongs to benchmarks."""
    return {
        (Path(folder) / name).relative_to(root).as_posix()
        for folder, _, names in os.walk(root / "baco", followlinks=True)
        for name in names
        if "__pycache__" not in folder and not re.match(r"baco/bench(/|$)", Path(folder).relative_to(root).as_posix())
    }  # fmt: skip


def test_a_wheel_holds_the_package_whole_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    ours = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    assert ours == _package_files(ROOT)
    assert "baco/py.typed" in ours
    (top,) = (name for name in names if name.endswith("top_level.txt"))
    with zipfile.ZipFile(installed.wheel) as wheel:
        assert wheel.read(top).decode().split() == ["baco"]


def test_what_a_package_index_shows_has_no_link_into_a_checkout(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = wheel.read(name).decode()
    assert "explore --network resnet50 --objective edp" in metadata
    assert not re.search(r"\]\((?!https://)", metadata)
    assert "Author: baco developers" in metadata
    assert "Project-URL" not in metadata


def test_the_archive_of_sources_holds_the_tests_and_what_they_read(installed: Installed) -> None:
    with tarfile.open(installed.sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("tests", "docs", "results"):
        here = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix != ".pyc" and "results/runs" not in path.as_posix()
        }
        assert here <= names, sorted(here - names)[:5]
    assert {"README.md", "CHANGELOG.md", ".ci/run", "baco/bench/chains.py", "baco/accel/config.py"} <= names


def test_every_module_of_a_wheel_is_there_to_be_imported(installed: Installed, user: Path) -> None:
    code = (
        "import importlib, pkgutil, baco\n"
        "names = [m.name for m in pkgutil.walk_packages(baco.__path__, 'baco.') if not m.name.endswith('__main__')]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(len(names), baco.__file__)\n"
    )
    done = installed.run("-c", code, folder=user)
    assert done.returncode == 0, done.stderr
    count, file = done.stdout.split()
    assert int(count) > 500
    assert Path(file).is_relative_to(installed.python.parents[1])


def test_files_of_the_users_beside_a_script_change_nothing(installed: Installed, user: Path) -> None:
    (user / "script.py").write_text(
        "import baco\n"
        "result = baco.explore('table.yaml', samples=20, seed=1, out='study')\n"
        "print(result.best.accelerator.dim, len(baco.load_study('study').designs()))\n"
        "print(baco.compile(baco.gemm(16, 16, 16)).elf is not None)\n"
    )
    done = installed.run("script.py", folder=user)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "True"
    assert (user / "study" / "study.sqlite").exists()


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("baco", ("networks",)),
        pytest.param("python", ("-m", "baco", "networks"), marks=pytest.mark.slow),
        ("explore", ("-n", "table.yaml", "--samples", "20", "--out", "study")),
        pytest.param(
            "baco",
            ("run", "kernel.py:matmul_relu", "--engine", "functional", "--help"),
            marks=pytest.mark.slow,
        ),
        pytest.param("baco", ("doctor",), marks=pytest.mark.slow),
    ],
)
def test_files_of_the_users_beside_a_command_change_nothing(
    installed: Installed, user: Path, program: str, arguments: tuple[str, ...]
) -> None:
    done = installed.run(*arguments, folder=user, program=program)
    assert done.returncode == 0, done.stderr
    assert "the user" not in done.stderr


@pytest.mark.slow
def test_workers_and_simulations_of_a_wheel_see_nothing_of_the_users(
    installed: Installed, user: Path
) -> None:
    arguments = ("-n", "table.yaml", "--samples", "20", "--out", "study", "--validate", "1", "--workers", "2")
    done = installed.run(*arguments, folder=user, program="explore")
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout


def test_an_installed_baco_says_where_benchmarks_are(installed: Installed, user: Path) -> None:
    for arguments in (("bench", "model"), ("bench", "rtl"), ("model", "evaluate")):
        done = installed.run(*arguments, folder=user, program="baco")
        assert done.returncode == 2
        assert "only a checkout of its repository does" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_type_checker_knows_an_installed_baco(installed: Installed, user: Path) -> None:
    own = user / "typed"
    own.mkdir()
    (own / "script.py").write_text(
        "import baco\n"
        "result = baco.explore('resnet18', samples=10)\n"
        "reveal_type(result)\n"
        "reveal_type(result.best.accelerator.dim)\n"
        "reveal_type(baco.accelerator('gemmini-default'))\n"
        "baco.explore(samples='many')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(installed.python), "--follow-imports=silent", "script.py"],
        cwd=own, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert '"baco.api.study.Study"' in done.stdout, done.stdout + done.stderr
    assert '"int"' in done.stdout
    assert '"baco.accel.config.Accelerator"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
    assert 'Argument "samples"' in done.stdout
