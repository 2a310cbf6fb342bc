"""Whole networks on a stock Gemmini: our programs beside those of its own C library, on the model of the original in a Rocket system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.bench.kernels import PRODUCTS
from baco.bench.tilings import Measure, kept_measurements, measuring
from baco.common.errors import InfeasibleError
from baco.common.provenance import stable_hash
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.exploration.measure.program_job import other_inputs
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network
from baco.workloads.problem import Problem

_ENGINE = "gemmini-model"
#: Bytes of a line of the second-level cache.
_LINE = 64
#: Products of TinyLlama with one row and with eight: rows, columns, depth.
DECODING = tuple(
    (rows, columns, depth)
    for rows in (1, 8)
    for columns, depth in ((2048, 2048), (256, 2048), (5632, 2048), (2048, 5632), (32000, 2048))
)
_SCALE = 2.0**-9


@dataclass(frozen=True)
class StockNetwork:
    """A network of the page.

    Attributes:
        spec: what it is loaded by.
        blocks: repeated blocks of the whole; 0: it has none, or all of them run.
        only: run so many of them, and say so; 0: the whole. Blocks are alike, so that the whole is told from runs of one and two.
        published: cycles of others on a stock machine, by whose they are.
    """

    spec: str
    blocks: int = 0
    only: int = 0
    published: Mapping[str, float] | None = None


NETWORKS = (
    StockNetwork("resnet50", published={"convolutions by hand (Exo)": 22.39e6, "by a compiler": 28.65e6}),
    StockNetwork("mobilenet_v2"),
    StockNetwork("bert_base:seq=128", only=1),
    StockNetwork("gpt2:seq=8"),
    StockNetwork("vit_b16", blocks=12),
    StockNetwork("tinyllama_1b:seq=8", blocks=22, published={"by a compiler": 378.9e6}),
)
#: What the networks of the page are loaded by.
SPECS = tuple(network.spec for network in NETWORKS)


@dataclass(frozen=True)
class StockProgram:
    """What one program takes from reset to its end.

    Attributes:
        cycles: counted by the model of the original.
        host_cycles: of these, those of steps that the host core runs alone.
        predicted: by the analytical model.
        right: whether every operator's output equals the integer reference.
        key: of the program and the simulator; equal for runs that must come out equal.
    """

    cycles: int
    host_cycles: int
    predicted: float
    right: bool
    key: str


def run(
    networks: Sequence[str] = SPECS,
    *,
    accelerator: str = "gemmini-default",
    whole: bool = False,
    products: bool = True,
    out: Path = FOLDER,
    say: Say = silent,
) -> dict[str, Any]:
    """Whole networks and products on a stock Gemmini: our programs and those of its library, timed by the model of the original.

    What was run is kept in the output folder's file and not run again while program and simulator are the same.

    Args:
        networks (--network, -n): repeatable; by default the six of the page.
        accelerator: whose timing becomes the original's.
        whole: run all blocks of the networks that are otherwise told from runs of one and two.
        products: time the six products too.
        out: folder for stock-gemmini.md and stock-gemmini.json.

    Raises InputError for a network that cannot be run, SimulationError for a program that had to be stopped.
    """
    known = {one.spec: one for one in NETWORKS}
    known |= {spec: StockNetwork(spec) for spec in networks if spec not in known}
    machine = load_accelerator(accelerator).replace(timing="gemmini")
    files = ResultFiles(out, "stock-gemmini", page)
    before = files.before() or {}
    rows = {row["network"]: row for row in before.get("networks", ())}
    result: dict[str, Any] = {"accelerator": machine.name, "config_hash": machine.config_hash, "networks": []}
    result |= {name: before.get(name, []) for name in ("products", "decoding")}
    for spec in networks:
        rows[spec] = _network(known[spec], machine, rows.get(spec), whole=whole, say=say)
        result["networks"] = [rows[name] for name in known if name in rows]
        files.keep(result)
    if products:
        with kept_measurements(None) as kept:
            measure = measuring(machine, kept, "rtl")
            for name, shapes in (("products", PRODUCTS), ("decoding", DECODING)):
                result[name] = []
                for shape in shapes:
                    result[name].append(_product(shape, machine, measure, say))
                    files.keep(result)
    return result


def _product(shape: tuple[int, int, int], machine: Accelerator, measure: Measure, say: Say) -> dict[str, Any]:
    """The row of a product of rows, columns and depth."""
    rows, columns, depth = shape
    layer = Layer(Problem(P=rows, K=columns, C=depth), scale=_SCALE)
    row: dict[str, Any] = {"product": "x".join(map(str, shape)), "macs": layer.problem.macs}
    row["lines"] = depth * columns / _LINE
    schedules = {"library": gemmini_schedule(layer, machine), "ours": choose(layer, machine)}
    for name, schedule in schedules.items():
        found = measure(layer, schedule)
        if found is None:
            raise InfeasibleError(f"{row['product']} by '{schedule}' cannot be carried out")
        row[name] = {
            "schedule": str(schedule),
            "cycles": found.program_cycles,
            "layer_cycles": found.cycles,
            "predicted": schedule_cycles(layer, schedule, machine),
            "filled": found.counters["memory_l2_misses"],
        }
    say(f"{row['product']}: library {row['library']['cycles']:,}, ours {row['ours']['cycles']:,}")
    return row


# -------------------------------------------------------------------- networks


def _network(
    one: StockNetwork, machine: Accelerator, before: Mapping[str, Any] | None, *, whole: bool, say: Say
) -> dict[str, Any]:
    """The row of a network: the parts that ran, and what follows for the whole."""
    network = load_network(one.spec)
    told = bool(one.blocks) and not whole
    row: dict[str, Any] = {"network": one.spec, "told": told, "published": dict(one.published or {})}
    row |= {"blocks": one.blocks, "only": one.only, "runs": {}}
    kept = _kept_runs(before)
    for layers in (1, 2) if told else (one.only or None,):
        quantised = quantise(network, layers=layers)
        data = quantise_inputs(quantised, other_inputs(network, quantised, 0))
        expected = reference(quantised, data)
        for library in (True, False):
            name = "library" if library else "ours"
            found = _program(quantised, machine, data, expected, kept, library=library)
            row["runs"].setdefault(name, []).append(asdict(found))
            part = f" ({layers} of its blocks)" if layers else ""
            say(f"{one.spec}{part}, {name}: {found.cycles:,} cycles, predicted {found.predicted:,.0f}")
    return row | {name: _whole(row["runs"][name], one.blocks if told else 0) for name in ("library", "ours")}


def _kept_runs(before: Mapping[str, Any] | None) -> dict[str, StockProgram]:
    """Runs of an earlier row by their keys."""
    runs = [run for path in (before or {}).get("runs", {}).values() for run in path]
    return {run["key"]: StockProgram(**run) for run in runs}


def _program(
    quantised: QuantisedNetwork,
    machine: Accelerator,
    data: Mapping[str, Any],
    expected: Mapping[str, Any],
    kept: Mapping[str, StockProgram],
    *,
    library: bool,
) -> StockProgram:
    built = compile_network(quantised, machine, data=data, reference=expected, check=False, library=library)
    key = stable_hash({"program": sha256(built.program.elf).hexdigest(), "simulator": _simulator_hash()})
    predicted = [cost.cycles for cost in predict_steps(built.lowered, machine)]
    if key in kept:
        return StockProgram(**asdict(kept[key]) | {"predicted": sum(predicted)})
    return _simulated(built, expected, predicted, key)


def _simulated(
    built: NetworkProgram, expected: Mapping[str, Any], predicted: Sequence[float], key: str
) -> StockProgram:
    found = run_network(built, expected, _ENGINE, predicted=predicted)
    host = sum(
        step.cycles
        for step, call in zip(found.steps, built.lowered.steps, strict=True)
        if not call.accelerator
    )
    cycles = found.result.cycles
    assert cycles is not None, "the model counts cycles"
    right = not found.wrong and found.result.exit_code == 0
    return StockProgram(cycles, host, sum(predicted), right, key)


def _simulator_hash() -> str:
    folder = Path(str(resources.files("baco.sim"))) / "cpp"
    return stable_hash(
        {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.[ch]*"))}
    )


def _whole(runs: Sequence[Mapping[str, Any]], blocks: int) -> dict[str, Any]:
    """Figures of a network of so many blocks from runs of one and two; of 0, the only run's."""
    names = ("cycles", "host_cycles", "predicted")
    if not blocks:
        return {name: runs[0][name] for name in names} | {"right": runs[0]["right"]}
    one, two = runs
    figures = {name: one[name] + (blocks - 1) * (two[name] - one[name]) for name in names}
    return figures | {"right": one["right"] and two["right"]}


# -------------------------------------------------------------------- page


def page(result: Mapping[str, Any]) -> str:
    """Networks and products, library beside ours."""
    return page_of(
        "Stock Gemmini: whole networks and products, by its library and by baco",
        f"`{result['accelerator']}` under `--timing gemmini`: cycles from reset to the end, counted by the model of the original in a Rocket"
        " system, host included. Library: tilings, kept operands and additions of Gemmini's own C library, its rows for windows of one pixel"
        " at stride 2 where those are faster, softmax, normalisation and functions of elements as plain C loops on the host core"
        " (`baco compile --baseline`); fences only where data ask for them, so that no doubt is to its disadvantage. Ours: `baco compile`."
        " Host: share of the cycles in operators that the host core runs alone. Predicted: by the analytical model.",
        table(_lines(result["networks"]), _NETWORK_COLUMNS),
        _told(result["networks"]),
        table(result["products"], _PRODUCT_COLUMNS) if result["products"] else "",
        "Products are rows × columns × depth; share: of the array's peak, from reset to the end."
        if result["products"]
        else "",
        table(result["decoding"], _DECODING_COLUMNS) if result["decoding"] else "",
        "Decoding: products of TinyLlama with one row and with eight. Weights are read once: lines of 64 bytes that the second-level cache"
        " fills, of inputs, results and the program too, over those that the weights lie in, and cycles of the whole program for each of"
        " these."
        if result["decoding"]
        else "",
    )


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        library, ours = row["library"], row["ours"]
        blocks = f", {row['only']} block" if row["only"] else ""
        yield {
            "network": f"{row['network']}{blocks}{' *' if row['told'] else ''}",
            "ratio": ours["cycles"] / library["cycles"],
            "library": library,
            "ours": ours,
            "published": ", ".join(f"{who} {_millions(cycles)}" for who, cycles in row["published"].items()),
        }


def _told(rows: Sequence[Mapping[str, Any]]) -> str:
    told = [f"{row['network']} {row['blocks']}" for row in rows if row["told"]]
    if not told:
        return ""
    return f"\\* Told from runs of one and of two blocks, which are alike: the first, and as many times their difference as blocks are left ({', '.join(told)} blocks)."


def _millions(cycles: float) -> str:
    return f"{cycles / 1e6:.2f} M"


def _host(figures: Mapping[str, Any]) -> str:
    return f"{figures['host_cycles'] / figures['cycles']:.0%}"


_NETWORK_COLUMNS = {
    "network": lambda line: line["network"],
    "library": lambda line: _millions(line["library"]["cycles"]),
    "host": lambda line: _host(line["library"]),
    "ours": lambda line: f"**{_millions(line['ours']['cycles'])}**",
    "host, ours": lambda line: _host(line["ours"]),
    "ours/library": lambda line: f"{line['ratio']:.3f}",
    "predicted/counted": lambda line: f"{line['ours']['predicted'] / line['ours']['cycles']:.3f}",
    "results": lambda line: "right" if line["ours"]["right"] and line["library"]["right"] else "**wrong**",
    "published by others": lambda line: line["published"],
}


def _share(row: Mapping[str, Any], name: str) -> str:
    return f"{row['macs'] / 256 / row[name]['cycles']:.1%}"


_PRODUCT_COLUMNS = {
    "product": lambda row: row["product"],
    "library": lambda row: f"{row['library']['cycles']:,}",
    "share": lambda row: _share(row, "library"),
    "ours": lambda row: f"**{row['ours']['cycles']:,}**",
    "share, ours": lambda row: _share(row, "ours"),
    "ours/library": lambda row: f"{row['ours']['cycles'] / row['library']['cycles']:.3f}",
    "predicted/counted": lambda row: f"{row['ours']['predicted'] / row['ours']['layer_cycles']:.3f}",
    "schedule": lambda row: row["ours"]["schedule"],
}
_DECODING_COLUMNS = {
    "product": lambda row: row["product"],
    "library": lambda row: f"{row['library']['cycles']:,}",
    "ours": lambda row: f"**{row['ours']['cycles']:,}**",
    "ours/library": lambda row: f"{row['ours']['cycles'] / row['library']['cycles']:.3f}",
    "lines filled/of weights": lambda row: f"{row['ours']['filled'] / row['lines']:.3f}",
    "cycles a line": lambda row: f"{row['ours']['cycles'] / row['lines']:.2f}",
    "predicted/counted": lambda row: f"{row['ours']['predicted'] / row['ours']['layer_cycles']:.3f}",
    "schedule": lambda row: row["ours"]["schedule"],
}
