"""Keys of kept results follow the import graph."""

import pytest

from baco.bench.code_hash import code_hash, modules_behind


def test_what_a_search_depends_on_is_found_through_imports_and_names() -> None:
    behind = modules_behind("baco.bench.runs")
    # imported directly, inside a function, and registered as a string
    assert {
        "baco.exploration.samplers.searchers",
        "baco.exploration.cost.predicted",
        "baco.exploration.samplers.descent",
    } <= behind
    assert {
        "baco.compiler.latency.model",
        "baco.compiler.styles.registry",
        "baco.accel.area",
        "baco.common.portable",
    } <= behind
    assert not any(
        name.startswith(("baco.commands", "baco.api", "baco.sim.cosim", "baco.bench.rtl")) for name in behind
    )


def test_a_hash_is_of_the_code_behind_a_module() -> None:
    assert code_hash("baco.exploration.objective") == code_hash("baco.exploration.objective")
    assert code_hash("baco.exploration.objective") != code_hash("baco.exploration.front")


def test_constants_count_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    before = code_hash("baco.compiler.latency.model")
    read = Path.read_bytes
    changed = lambda path: read(path) + (b" " if path.name == "constants.json" else b"")  # noqa: E731
    monkeypatch.setattr(Path, "read_bytes", changed)
    code_hash.cache_clear()
    assert code_hash("baco.compiler.latency.model") != before
    code_hash.cache_clear()


def test_an_unknown_module_is_no_code() -> None:
    with pytest.raises(ModuleNotFoundError):
        code_hash("explore.no_such_module")
