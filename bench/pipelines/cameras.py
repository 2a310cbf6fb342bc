"""A camera's frame in, classes or boxes out: what lies before and behind a network as tensor code, in one program with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.harness.experiment import table
from baco.common.errors import BacoError
from baco.compiler.network.pipeline_parts import PipelineParts
from baco.compiler.network.program import compile_network
from baco.compiler.network.reference import reference
from baco.sim.job import Limits
from baco.sim.network.profile import OperatorProfile
from baco.sim.network.run import run_network
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from baco.workloads.networks.resnet import conv_bn, features, resnet18
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.functions import resize, top
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline

#: Of the colours of ImageNet, in units of the largest byte.
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
#: Of the detector: classes, width of its head, pixels of a cell, pixels of a box of a cell before it is changed.
CLASSES, WIDTH, STRIDE, ANCHOR = 20, 128, 16, 48.0
#: Boxes that are looked at, and the share of their union from which on the worse of two boxes goes.
BOXES, OVERLAP = 32, 0.5


def front(size: int) -> Callable[[Any], Any]:
    """The middle of a frame, resized to size × size, in the numbers that networks for ImageNet read."""

    def camera(frame: Any) -> Any:
        height, width, _ = frame.shape
        side = min(height, width)
        top_line, left = (height - side) // 2, (width - side) // 2
        square = frame[top_line : top_line + side, left : left + side]
        small = resize(square, (size, size), rounded=True)
        return (small / 255 - MEAN) / DEVIATION

    return camera


def five(scores: Any) -> Any:
    """Positions of the five best of 1,000 classes."""
    return top(scores, 5)


def detector(image: int) -> Network:
    """ResNet-18 to a sixteenth of the image, and a head with scores and a box for every cell."""
    b = GraphBuilder("detector", options={"image": image})
    x = features(b, b.input("image", (1, 3, image, image)), (2, 2, 2, 2), False)[2]
    x = conv_bn(b, x, WIDTH, 3, 1, "head")
    scores = b.conv2d(x, CLASSES, 1, bias=True, name="scores")
    boxes = b.conv2d(x, 4, 1, bias=True, name="boxes")
    return b.build(outputs=[scores, boxes], output_names=["scores", "boxes"])


def decoded(scores: Any, boxes: Any) -> tuple[Any, Any, Any, Any]:
    """(Corners of the best boxes in pixels [BOXES, 4], their classes, their scores, and whether each stays) of a detector's cells."""
    height, width = scores.shape[2:]
    by_cell = scores.reshape(CLASSES, height * width).T
    best = by_cell.max(1)
    count = min(BOXES, height * width)
    order = top(best, count)
    y, x = np.divmod(np.arange(height * width), width)
    moves = np.clip(boxes.reshape(4, height * width), -4, 4)
    middle_x, middle_y = (x + 0.5 + moves[0]) * STRIDE, (y + 0.5 + moves[1]) * STRIDE
    half_x, half_y = np.exp(moves[2]) * (ANCHOR / 2), np.exp(moves[3]) * (ANCHOR / 2)
    corners = np.stack([middle_x - half_x, middle_y - half_y, middle_x + half_x, middle_y + half_y], 1)
    corners = np.take(corners, order, 0)
    return corners, np.take(by_cell.argmax(1), order), np.take(best, order), survivors(corners)


def survivors(corners: Any) -> Any:
    """1 for every box that stays, 0 for those that a better one overlaps which stays (non-maximum suppression); the best one first."""
    count = corners.shape[0]
    left, top_line, right, bottom = (corners[:, i] for i in range(4))
    wide = np.minimum(right[:, None], right[None]) - np.maximum(left[:, None], left[None])
    high = np.minimum(bottom[:, None], bottom[None]) - np.maximum(top_line[:, None], top_line[None])
    shared = np.maximum(wide, 0) * np.maximum(high, 0)
    area = (right - left) * (bottom - top_line)
    over = np.where(shared > OVERLAP * (area[:, None] + area[None] - shared), 1, 0)
    gone = over * np.triu(np.ones((count, count), int), 1)
    stays = np.ones(count, int) - 0 * gone[0]
    for better in range(count - 1):
        stays = stays * (1 - stays[better : better + 1] * gone[better])
    return stays


#: Pipelines around networks: network of an image's size, what is behind it.
CAMERAS: dict[str, tuple[Callable[[int], Network], Callable[..., Any]]] = {
    "classes": (lambda image: resnet18(image=image), five),
    "boxes": (detector, decoded),
}


def camera_row(
    name: str, frame: tuple[int, int], image: int, machine: Accelerator, engine: str, seed: int
) -> dict[str, Any]:
    """What the whole program of `CAMERAS[name]` takes: cycles, of these the host's alone, by part, and each part's error.

    Args:
        frame: height and width of the camera's frame.
        image: height and width that the network reads.
        seed: of the frame and of the network's parameters.

    Raises BacoError for results that are not those of the integers, of numpy and of the network in floating point.
    """
    network, behind = CAMERAS[name]
    shape = (*frame, 3)
    pre = TracedPipeline(front(image), {"frame": Numbers(shape)})
    parts = PipelineParts(name, pre, network(image), behind, seed)
    arrays = pre.random(seed)
    made = parts.joined(arrays, parts.front_network(Placing("packed", machine.dim)), machine.dim)
    values = reference(made.whole, made.data)
    built = compile_network(made.whole, machine, data=made.data, check=False)
    ran = run_network(built, values, engine, limits=Limits(max_cycles=0))
    comparisons = list(made.comparisons(values))
    wrong = [*map(str, ran.wrong), *(one.problem for one in comparisons if one.problem)]
    if wrong:
        raise BacoError(f"{name}: {wrong[0]}")
    errors: dict[str, float] = {}
    for comparison in comparisons:
        errors[comparison.part] = max(errors.get(comparison.part, 0.0), comparison.error)
    return {
        "pipeline": name,
        "size": "×".join(map(str, shape)),
        "network": f"{parts.network.name if parts.network else ''}, {image}×{image}",
        "engine": engine,
        "cycles": ran.result.cycles,
        "host_share": host_share(ran.operators),
        "parts": {
            part: sum(one.cycles or 0 for one in ran.operators if one.operator.startswith(f"{number}:"))
            for number, part in enumerate(("pre", "network", "post"))
        },
        "host_parts": {
            part: host_share([one for one in ran.operators if one.operator.startswith(f"{number}:")])
            for number, part in enumerate(("pre", "network", "post"))
        },
        "errors": errors,
    }


def host_share(operators: Sequence[OperatorProfile]) -> float | None:
    """Share of the cycles of operators that the host core alone ran; None without timing."""
    total = sum(one.cycles or 0 for one in operators)
    return sum(one.cycles or 0 for one in operators if one.on == "host") / total if total else None


def camera_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row for every program and engine."""

    def part(name: str) -> Callable[[Mapping[str, Any]], str]:
        def cell(row: Mapping[str, Any]) -> str:
            share = row["host_parts"][name]
            return "" if share is None else f"{row['parts'][name]:,} ({share:.0%})"

        return cell

    return table(
        rows,
        {
            "frame to": lambda row: row["pipeline"],
            "frame": lambda row: row["size"],
            "network": lambda row: row["network"],
            "counted by": lambda row: row["engine"],
            "cycles": lambda row: "" if row["cycles"] is None else f"{row['cycles']:,}",
            "the host's share": lambda row: "" if row["host_share"] is None else f"{row['host_share']:.0%}",
            "before (of these the host's)": part("pre"),
            "in the network": part("network"),
            "behind": part("post"),
            "error before": lambda row: f"{row['errors']['pre']:.1e}",
            "of the network": lambda row: f"{row['errors']['network']:.1e}",
            "behind it": lambda row: f"{row['errors']['post']:.1e}",
        },
    )
