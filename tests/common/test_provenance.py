"""Hashes that are stable, and records that say where a result comes from."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from baco.common.provenance import Provenance, canonical_json, command_line, stable_hash, versions

ROOT = Path(__file__).resolve().parents[2]


def test_canonical_json() -> None:
    assert (
        canonical_json({"b": [1, 2.0, (3,)], "a": "µ", "c": None}) == '{"a":"\\u00b5","b":[1,2,[3]],"c":null}'
    )


def test_hash_is_the_documented_one() -> None:
    # printf '{"a":1,"b":[true,0.5]}' | sha256sum
    assert stable_hash({"b": [True, 0.5], "a": 1.0}) == "daf45e2b79817496"


def test_hash_does_not_depend_on_order_or_process() -> None:
    value = {"x": 1, "y": {"q": [1.5, "t"], "p": None}}
    assert stable_hash(value) == stable_hash({"y": {"p": None, "q": [1.5, "t"]}, "x": 1})
    code = "from baco.common.provenance import stable_hash; print(stable_hash({'y': {'p': None, 'q': [1.5, 't']}, 'x': 1}))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == stable_hash(value)


@pytest.mark.parametrize(("a", "b"), [({"x": 1}, {"x": 2}), ([1, 2], [2, 1]), ("1", 1), (True, 1), (None, 0)])
def test_hash_tells_values_apart(a: object, b: object) -> None:
    assert stable_hash(a) != stable_hash(b)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"x": {1, 2}}, object()])
def test_values_without_a_canonical_form(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        stable_hash(value)


def test_versions_do_not_import_what_they_name() -> None:
    found = versions()
    assert found["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert {"numpy", "torch"} <= set(found)
    code = "import sys; from baco.common.provenance import versions; versions(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_command_line_can_be_pasted() -> None:
    assert command_line(["/a b/bin/explore", "--network", "my net.onnx"]) == "explore --network 'my net.onnx'"
    assert command_line(["/x/baco/__main__.py", "doctor"]) == "baco doctor"


def test_provenance_is_plain_json() -> None:
    record = Provenance.now(seed=3, configuration_hash="ab", command="baco x").to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["seed"] == 3
    assert record["started"].endswith("+00:00")
    assert record["platform"]["processors"] >= 1
