"""The import order of the design: arrows only go down, there are no cycles of files or folders; no name has two classes."""

import ast
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: From the top to the ground floor; a folder may import itself and what comes after it.
ORDER = ("baco", "bench", "exploration", "sim", "compiler", "workloads", "accel", "common")


def package_files(*folders: str) -> list[Path]:
    """Python files of the package, or of these folders in it: below `baco/`, where links lead to the folders beside it."""
    return [
        Path(folder) / name
        for start in folders or ("",)
        for folder, _, names in sorted(os.walk(ROOT / "baco" / start, followlinks=True))
        for name in sorted(names)
        if name.endswith(".py")
    ]


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(module: str) -> str:
    """Which of ORDER a module of ours lies in: everything that is in none of the other folders is the front door's."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else parts[0]


#: How folders of a checkout are called in it, where Python must not find them.
FOLDERS = ("accel", "bench", "common", "compiler", "explore", "sim", "workloads")
MODULES = {_module(path): path for path in package_files()}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(_read_imports(path))


def _read_imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) for every import in the file, also those inside functions."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by the full name, not relatively"
            assert node.module is not None
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if whole in MODULES else node.module


def _violations(files: dict[Path, list[tuple[int, str]]], root: Path) -> list[str]:
    found = []
    for path, imports in files.items():
        own = ORDER.index(_room(_module(path)))
        for line, module in imports:
            top = _room(module)
            if f"{module}.".startswith("baco.") and ORDER.index(top) < own:
                found.append(f"{path.relative_to(root)}:{line} imports {module}, which is above it")
            if module.split(".")[0] in FOLDERS:
                found.append(f"{path.relative_to(root)}:{line} imports {module}, which only a checkout has")
            if top == "tests":
                found.append(f"{path.relative_to(root)}:{line} imports the tests")
    return found


def _cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """Some cycle of the graph, or None."""
    state: dict[str, int] = {}
    for start in graph:
        trail = [(start, iter(sorted(graph[start])))]
        if state.get(start):
            continue
        state[start] = 1
        while trail:
            node, rest = trail[-1]
            following = next(rest, None)
            if following is None:
                state[node] = 2
                trail.pop()
            elif state.get(following) == 1:
                names = [name for name, _ in trail]
                return [*names[names.index(following) :], following]
            elif not state.get(following):
                state[following] = 1
                trail.append((following, iter(sorted(graph[following]))))
    return None


def test_arrows_only_go_down() -> None:
    files = {path: list(_imports(path)) for path in package_files()}
    assert len(files) > 20, "the packages were not found"
    assert _violations(files, ROOT) == []


def test_no_cycles_ofpackage_files() -> None:
    graph: dict[str, set[str]] = {
        module: {target for _, target in _imports(path) if target in MODULES and target != module}
        for module, path in MODULES.items()
    }
    assert _cycle(graph) is None


def _folders(arrows: Iterable[tuple[str, str]], files: dict[str, Path]) -> dict[str, set[str]]:
    """Folder -> folders that its own files import; the files beside a package's folders are a folder of their own."""
    graph: dict[str, set[str]] = {}
    for module, target in arrows:
        own, other = str(files[module].parent), str(files[target].parent)
        graph.setdefault(own, set())
        graph.setdefault(other, set())
        if own != other:
            graph[own].add(other)
    return graph


def test_no_cycles_of_folders() -> None:
    arrows = [
        (module, target)
        for module, path in MODULES.items()
        for _, target in _imports(path)
        if target in MODULES
    ]
    graph = _folders(arrows, {module: path.relative_to(ROOT) for module, path in MODULES.items()})
    assert len(graph) > 30
    assert _cycle(graph) is None


def _public_classes(files: Iterable[Path]) -> dict[str, list[str]]:
    """Files by the name of the public class that they define."""
    found: dict[str, list[str]] = {}
    for path in files:
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path))
    return found


def test_no_two_public_classes_of_one_name() -> None:
    assert {name: paths for name, paths in _public_classes(package_files()).items() if len(paths) > 1} == {}


def test_the_check_sees_two_classes_of_one_name_and_a_cycle_of_folders(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("class Layer: ...\n\nclass _Own: ...\n")
    paths = [tmp_path / "one.py", tmp_path / "two.py"]
    assert _public_classes(paths) == {"Layer": [str(path) for path in paths]}
    files = {"a.x": Path("a/x.py"), "a.y": Path("a/y.py"), "a.b.z": Path("a/b/z.py")}
    assert _cycle(_folders([("a.x", "a.b.z"), ("a.b.z", "a.y")], files)) is not None
    assert _cycle(_folders([("a.x", "a.b.z"), ("a.x", "a.y")], files)) is None


def test_the_check_sees_an_upward_arrow_and_a_cycle() -> None:
    path = ROOT / "baco" / "common" / "errors.py"
    assert _violations({path: [(3, "baco.exploration.space"), (4, "sim.build")]}, ROOT) == [
        "baco/common/errors.py:3 imports baco.exploration.space, which is above it",
        "baco/common/errors.py:4 imports sim.build, which only a checkout has",
    ]
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_every_folder_has_a_place_in_the_order() -> None:
    """In a checkout, the package leads to each folder of sources beside it; an unpacked archive has only the package."""
    links = {path.name: path.resolve().name for path in (ROOT / "baco").iterdir() if path.is_symlink()}
    beside = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"baco", "tests"}
    assert set(links) <= set(ORDER)
    assert set(links.values()) == beside
    assert {name: folder for name, folder in links.items() if name != folder} in (
        {"exploration": "explore"},
        {},
    )
