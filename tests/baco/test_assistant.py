"""What assistants may ask of baco: only on files below one folder; served by the official SDK where that is installed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from baco.api.assistant import Assistant
from baco.commands.mcp import server
from baco.common.errors import InputError
from baco.common.files import check_place, only_below, read_input
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

TABLE = "name: small\nlayers:\n  - {name: product, type: gemm, M: 12, K: 10, N: 9}\n"
SPACE = {"dim": [4, 8], "scratchpad_kib": [16], "accumulator_kib": [8], "units": ["none"]}


@pytest.fixture
def assistant(tmp_path: Path) -> Assistant:
    made = Assistant(tmp_path / "inside")
    (made.folder / "table.yaml").write_text(TABLE)
    (tmp_path / "secret.yaml").write_text("name: secret\ndim: [4]\n")
    return made


@pytest.mark.parametrize(
    "name",
    ["../secret.yaml", "a/../../secret.yaml", "/etc/passwd", "..", ".", "", "link", "links/secret.yaml", "a\0b", "../inside-not"],
)  # fmt: skip
def test_paths_that_lead_out_are_refused(name: str, assistant: Assistant) -> None:
    (assistant.folder / "link").symlink_to("../secret.yaml")
    (assistant.folder / "links").symlink_to("..")
    with pytest.raises(InputError):
        assistant.path(name)


def test_paths_below_the_folder_are_taken(assistant: Assistant) -> None:
    (assistant.folder / "here").symlink_to("table.yaml")
    for name in (
        "table.yaml",
        "new/deeper/file",
        "here",
        "a/../table.yaml",
        str(assistant.folder / "table.yaml"),
    ):
        assert os.path.realpath(assistant.path(name)).startswith(str(assistant.folder))


def test_nothing_outside_is_read_by_any_way(assistant: Assistant, tmp_path: Path) -> None:
    secret = str(tmp_path / "secret.yaml")
    (assistant.folder / "leads.yaml").write_text(
        f"name: x\nbase: {secret}\ndim: [4]\nscratchpad_kib: [16]\naccumulator_kib: [8]\n"
    )
    (assistant.folder / "code.py").write_text("raise SystemExit('executed')\n")
    calls: list[tuple[Any, dict[str, Any]]] = [
        (assistant.explore, {"network": secret, "out": "s"}),
        (assistant.explore, {"network": "table.yaml", "out": "../s"}),
        (assistant.explore, {"network": "table.yaml", "out": "s", "space": "../secret.yaml"}),
        (assistant.explore, {"network": "table.yaml", "out": "s", "space": "leads.yaml"}),
        (assistant.explore, {"network": "table.yaml", "out": "s", "space": {**SPACE, "base": secret}}),
        (assistant.explore, {"network": "code.py:model", "out": "s"}),
        (assistant.explore, {"network": "gpt2:weights=/etc/hostname.safetensors", "out": "s"}),
        (assistant.cost, {"layer": {"gemm": [8, 8, 8]}, "accelerator": "../secret.yaml"}),
        (assistant.cost, {"layer": {"gemm": [8, 8, 8]}, "accelerator": f"{secret},dim=8"}),
        (assistant.compile, {"layer": {"gemm": [8, 8, 8]}, "out": "../p.elf"}),
        (assistant.compile, {"network": secret, "out": "p.elf"}),
        (assistant.read_study, {"study": ".."}),
        (assistant.validate, {"study": "/tmp"}),
    ]
    for function, arguments in calls:
        with pytest.raises(InputError) as caught:
            function(**arguments)
        assert "secret\n" not in str(caught.value)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["inside", "secret.yaml"]
    assert not (assistant.folder / "s").exists()


@pytest.mark.parametrize(
    "network",
    [
        "code.py:model",
        "code.PY:model",
        "model.onnx:operators=code.py",
        "model.onnx:batch=1, operators =code.py",
    ],
)
def test_code_is_not_executed_by_any_way(assistant: Assistant, network: str) -> None:
    for name in ("code.py", "code.PY"):
        (assistant.folder / name).write_text("raise SystemExit('executed')\n")
    (assistant.folder / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="code is not executed for assistants"):
        assistant.explore(network, "s")


def test_only_below_holds_for_reading_and_ends(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("text")
    (tmp_path / "inside").mkdir()
    with (
        only_below(tmp_path / "inside"),
        pytest.raises(InputError, match="outside of the folder that is worked in"),
    ):
        read_input(outside)
    check_place(outside)
    assert read_input(outside) == b"text"


def test_a_search_is_told_in_plain_values_and_goes_on(assistant: Assistant) -> None:
    found = assistant.explore("table.yaml", "studies/one", space=SPACE, samples=20)
    json.dumps(found, allow_nan=False)
    assert found["study"] == "studies/one"
    assert (assistant.folder / found["report"]).is_file()
    assert found["best"]["accelerator.dim"] in (4, 8)
    assert min(one["edp_uj_cycles"] for one in found["front"]) == found["best"]["edp_uj_cycles"]
    again = assistant.explore("table.yaml", "studies/one", space=SPACE, samples=40)
    assert again["samples"] > found["samples"]
    assert assistant.read_study("studies/one")["designs"] == again["designs"]
    parts = assistant.read_study("studies/one", design=0)
    json.dumps(parts, allow_nan=False)
    assert {one["kind"] for one in parts["parts"]} >= {"network", "layer"}
    told = assistant.cost(network="table.yaml", accelerator="studies/one")
    assert told["parts"][0]["path"] == "small"


def test_costs_and_programs(assistant: Assistant) -> None:
    told = assistant.cost(
        layer={"conv": [6, 6, 4, 8], "kernel": 3, "padding": 1}, accelerator="gemmini-default,dim=8"
    )
    built = assistant.compile(
        "programs/p.elf", layer={"conv": [6, 6, 4, 8], "kernel": 3, "padding": 1}, run=True
    )
    json.dumps([told, built], allow_nan=False)
    assert built["right"] is True
    assert (assistant.folder / "programs/p.elf").read_bytes()[:4] == b"\x7fELF"
    assert "resnet50" in assistant.networks()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give a layer or a network"),
        ({"layer": {"gemm": [8, 8, 8]}, "network": "resnet18"}, "give a layer or a network"),
        ({"layer": {"gemm": [8, 8]}}, "gemm has m, k, n"),
        ({"layer": {"pool": 3}}, "a layer is a gemm or a conv"),
        ({"layer": {"gemm": [8, 8, 8], "depth": 3}}, "this is no layer"),
        ({"layer": {"gemm": [8, 8, "x"]}}, "n must be a whole number"),
        ({"network": "missing.onnx"}, "no such file"),
        ({"layer": {"gemm": [8, 8, 8]}, "accelerator": "gemini"}, "gemini"),
    ],
)  # fmt: skip
def test_what_is_said_to_mistakes(arguments: dict[str, Any], message: str, assistant: Assistant) -> None:
    with pytest.raises(InputError, match=message):
        assistant.cost(**arguments)


def test_the_command_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run("baco", ["mcp", "--folder", str(tmp_path / "f")]) == 2
    assert "pip install 'baco[mcp]'" in capsys.readouterr().err


def test_the_functions_as_tools_of_the_sdk(assistant: Assistant) -> None:
    pytest.importorskip(
        "mcp", reason="the SDK of the Model Context Protocol is not installed: pip install 'baco[mcp]'"
    )

    async def listed() -> Any:
        return await server(assistant).list_tools()

    tools = {one.name: one for one in asyncio.run(listed())}
    assert set(tools) == {"networks", "explore", "read_study", "cost", "compile", "validate"}
    schema = getattr(tools["explore"], "input_schema", None) or tools["explore"].inputSchema
    assert schema["required"] == ["network", "out"]
    assert schema["properties"]["objective"]["default"] == "edp"


def test_a_client_of_the_sdk_talks_to_the_command(assistant: Assistant) -> None:
    """Over standard input and output, as assistants do: a tool that works, and one that is refused."""
    pytest.importorskip(
        "mcp", reason="the SDK of the Model Context Protocol is not installed: pip install 'baco[mcp]'"
    )
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "baco", "mcp", "--folder", str(assistant.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[2],
    )

    async def talk() -> list[Any]:
        async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            right = await session.call_tool("cost", {"layer": {"gemm": [8, 8, 8]}})
            wrong = await session.call_tool("read_study", {"study": "../elsewhere"})
            return [right, wrong]

    right, wrong = asyncio.run(asyncio.wait_for(talk(), 120))
    assert "latency_cycles" in right.content[0].text
    assert not getattr(right, "is_error", getattr(right, "isError", None))
    assert getattr(wrong, "is_error", getattr(wrong, "isError", None))
    assert "leads out of the folder" in wrong.content[0].text


def test_nothing_is_written_beside_the_protocol(
    assistant: Assistant, capfd: pytest.CaptureFixture[str]
) -> None:
    """Standard output belongs to the protocol."""
    assistant.explore("table.yaml", "quiet", space={"dim": [4], "units": ["none"]}, samples=5)
    assistant.cost(layer={"gemm": [8, 8, 8]})
    assert capfd.readouterr().out == ""
