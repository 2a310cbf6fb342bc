"""The operations of a layer as MLIR text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.compiler.layers.layer import Layer, Layout

__all__ = ["layer_text"]


def layer_text(layer: Layer, name: str, workspaces: Sequence[tuple[str, int]]) -> str:
    """A module with one function on flat buffers: input, weight, bias, residual, output, workspaces."""
    return _Text(layer, name, workspaces).module()


class _Text:
    """Writes the function from top to bottom; dimensions of images are n, row, column, group, channel."""

    def __init__(self, layer: Layer, name: str, workspaces: Sequence[tuple[str, int]]) -> None:
        self.layer, self.name, self.spaces = layer, name, workspaces
        p = layer.problem
        self.results = (p.N, p.Q, p.P, p.groups, p.K)
        self.lines: list[str] = []

    def module(self) -> str:
        layer = self.layer
        out = "i32" if layer.scale is None else "i8"
        arguments = [f"%input: memref<{layer.input_extent}xi8>", f"%weight: memref<{layer.weight_extent}xi8>"]
        if layer.bias:
            arguments.append(f"%bias: memref<{layer.problem.groups * layer.problem.K}xi32>")
        if layer.residual_scale is not None:
            arguments.append(f"%residual: memref<{layer.residual_extent}xi8>")
        arguments.append(f"%output: memref<{layer.output_extent}x{out}>")
        arguments += [f"%{name}: memref<{size}xi8>" for name, size in self.spaces]
        self.put("%zero = arith.constant 0 : i32")
        self.put("%zero8 = arith.constant 0 : i8")
        self.contraction()
        value = self.epilogue()
        if layer.pooling:
            value = self.pool(value)
        self.store(value, out)
        self.put("func.return")
        body = "\n".join("    " + line for line in self.lines)
        return f"builtin.module {{\n  func.func @{self.name}({', '.join(arguments)}) {{\n{body}\n  }}\n}}\n"

    def put(self, line: str) -> None:
        self.lines.append(line)

    # ---------------------------------------------------------------- pieces

    def view(self, name: str, extent: int, kind: str, sizes: Sequence[int], strides: Sequence[int]) -> str:
        """A buffer seen as an array; its type."""
        shaped = f"memref<{_by(sizes)}x{kind}, strided<[{_list(strides)}]>>"
        self.put(
            f"%{name}_view = memref.reinterpret_cast %{name} to offset: [0], sizes: [{_list(sizes)}],"
            f" strides: [{_list(strides)}] : memref<{extent}x{kind}> to {shaped}"
        )
        return shaped

    def read(self, name: str, extent: int, kind: str, sizes: Sequence[int], strides: Sequence[int]) -> str:
        """A buffer as a tensor; its type."""
        shaped = self.view(name, extent, kind, sizes, strides)
        local, tensor = f"memref<{_by(sizes)}x{kind}>", f"tensor<{_by(sizes)}x{kind}>"
        self.put(f"%{name}_copy = memref.alloc() : {local}")
        self.put(f'"memref.copy"(%{name}_view, %{name}_copy) : ({shaped}, {local}) -> ()')
        self.put(f"%{name}_array = bufferization.to_tensor %{name}_copy restrict : {local} to {tensor}")
        return tensor

    def padded(
        self, source: str, kind: str, sizes: Sequence[int], low: Sequence[int], high: Sequence[int]
    ) -> tuple[str, str]:
        """A tensor with zeros around it: its name and type."""
        before = f"tensor<{_by(sizes)}xi8>"
        if not any((*low, *high)):
            return source, before
        after = f"tensor<{_by([a + b + c for a, b, c in zip(low, sizes, high, strict=True)])}x{kind}>"
        places = ", ".join(f"%i{n}: index" for n in range(len(sizes)))
        self.put(f"{source}_padded = tensor.pad {source} low[{_list(low)}] high[{_list(high)}] {{")
        self.put(f"^bb0({places}):")
        self.put("  tensor.yield %zero8 : i8")
        self.put(f"}} : {before} to {after}")
        return f"{source}_padded", after

    def generic(
        self,
        result: str,
        maps: Sequence[str],
        loops: Sequence[str],
        inputs: Sequence[tuple[str, str]],
        start: tuple[str, str],
        body: Sequence[str],
    ) -> None:
        """A linalg.generic; every operand with its type, the body's lines end with what is yielded."""
        kinds = [_element(kind) for _, kind in (*inputs, start)]
        names = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(kinds))
        iterators = ", ".join(f'"{one}"' for one in loops)
        ins = (
            f" ins({', '.join(name for name, _ in inputs)} : {', '.join(kind for _, kind in inputs)})"
            if inputs
            else ""
        )
        self.put(
            f"{result} = linalg.generic {{indexing_maps = [{', '.join(f'affine_map<{one}>' for one in maps)}],"
            f" iterator_types = [{iterators}]}}{ins} outs({start[0]} : {start[1]}) {{"
        )
        self.put(f"^bb0({names}):")
        for line in body:
            self.put("  " + line)
        self.put(f"}} -> {start[1]}")

    # ---------------------------------------------------------------- steps

    def contraction(self) -> None:
        layer, p = self.layer, self.layer.problem
        height, width = layer.size
        top, left = layer.padding
        image = (p.N, height, width, p.groups, p.C)
        pitch, group = layer.input.pitch, layer.input.group
        self.read(
            "input", layer.input_extent, "i8", image, (height * width * pitch, width * pitch, pitch, group, 1)
        )
        below = max(0, (p.Q - 1) * p.stride_h + (p.S - 1) * p.dilation_h + 1 - top - height)
        right = max(0, (p.P - 1) * p.stride_w + (p.R - 1) * p.dilation_w + 1 - left - width)
        pixels = self.padded("%input_array", "i8", image, (0, top, left, 0, 0), (0, below, right, 0, 0))
        weight = layer.weight
        row = weight.pitch
        strides = (weight.group, p.R * p.C * row, p.C * row, row, 1)
        if layer.weights_transposed:
            strides = (weight.group, p.C * p.K, p.C * p.K, 1, row)
        sizes = (p.groups, p.S, p.R, p.C, p.K)
        factors = ("%weight_array", self.read("weight", layer.weight_extent, "i8", sizes, strides))
        start = self.start()
        loops = "(n, q, p, g, k, s, r, c)"
        self.generic(
            "%sums",
            [
                f"{loops} -> (n, {_position('q', p.stride_h, 's', p.dilation_h)},"
                f" {_position('p', p.stride_w, 'r', p.dilation_w)}, g, c)",
                f"{loops} -> (g, s, r, c, k)",
                f"{loops} -> (n, q, p, g, k)",
            ],
            ["parallel"] * 5 + ["reduction"] * 3,
            [pixels, factors],
            start,
            [
                "%x = arith.extsi %a0 : i8 to i32",
                "%w = arith.extsi %a1 : i8 to i32",
                "%xw = arith.muli %x, %w : i32",
                "%sum = arith.addi %a2, %xw : i32",
                "linalg.yield %sum : i32",
            ],
        )

    def start(self) -> tuple[str, str]:
        """What sums begin with: zero, or the bias of their channel."""
        layer, p = self.layer, self.layer.problem
        kind = f"tensor<{_by(self.results)}xi32>"
        self.put(f"%room = tensor.empty() : {kind}")
        if not layer.bias:
            self.put(f"%start = linalg.fill ins(%zero : i32) outs(%room : {kind}) -> {kind}")
            return "%start", kind
        bias = self.read("bias", p.groups * p.K, "i32", (p.groups, p.K), (p.K, 1))
        self.generic(
            "%start",
            ["(n, q, p, g, k) -> (g, k)", "(n, q, p, g, k) -> (n, q, p, g, k)"],
            ["parallel"] * 5,
            [("%bias_array", bias)],
            ("%room", kind),
            ["linalg.yield %a0 : i32"],
        )
        return "%start", kind

    def epilogue(self) -> tuple[str, str]:
        """Residual, ReLU and requantisation."""
        layer = self.layer
        sums = f"tensor<{_by(self.results)}xi32>"
        if layer.residual_scale is None and layer.scale is None:
            return "%sums", sums
        out = "i32" if layer.scale is None else "i8"
        kind = f"tensor<{_by(self.results)}x{out}>"
        inputs, value, body = [("%sums", sums)], "%a0", list[str]()
        if layer.residual_scale is not None:
            residual = self.read(
                "residual", layer.residual_extent, "i8", self.results, self.strides(layer.output)
            )
            inputs.append(("%residual_array", residual))
            body += _scaled("%a1", "i8", layer.residual_scale, "b")
            body += ["%more = arith.extsi %b_low : i8 to i32", "%total = arith.addi %a0, %more : i32"]
            value = "%total"
        if layer.relu:
            body += [f"%positive = arith.maxsi {value}, %zero : i32"]
            value = "%positive"
        if layer.scale is not None:
            body += _scaled(value, "i32", layer.scale, "o")
            value = "%o_low"
        self.put(f"%narrow = tensor.empty() : {kind}")
        same = "(n, q, p, g, k) -> (n, q, p, g, k)"
        self.generic(
            "%results",
            [same] * (len(inputs) + 1),
            ["parallel"] * 5,
            inputs,
            ("%narrow", kind),
            [*body, f"linalg.yield {value} : {out}"],
        )
        return "%results", kind

    def pool(self, value: tuple[str, str]) -> tuple[str, str]:
        """The maximum of every window; zero beside the image."""
        pool, p = self.layer.pooling, self.layer.problem
        assert pool is not None
        below, right = (
            max(0, (count - 1) * pool.stride + pool.size - pool.padding - extent)
            for count, extent in ((pool.rows, p.Q), (pool.columns, p.P))
        )
        low, high = (0, pool.padding, pool.padding, 0, 0), (0, below, right, 0, 0)
        image = self.padded(value[0], "i8", self.results, low, high)
        kind = f"tensor<{_by((p.N, pool.rows, pool.columns, p.groups, p.K))}xi8>"
        window = f"tensor<{pool.size}x{pool.size}xi8>"
        self.put("%least = arith.constant -128 : i8")
        self.put(f"%pooled_room = tensor.empty() : {kind}")
        self.put(f"%pooled_start = linalg.fill ins(%least : i8) outs(%pooled_room : {kind}) -> {kind}")
        # an operand without contents gives the window's extent
        self.put(f"%window = tensor.empty() : {window}")
        loops = "(n, q, p, g, k, y, x)"
        self.generic(
            "%pooled",
            [
                f"{loops} -> (n, {_position('q', pool.stride, 'y', 1)}, {_position('p', pool.stride, 'x', 1)}, g, k)",
                f"{loops} -> (y, x)",
                f"{loops} -> (n, q, p, g, k)",
            ],
            ["parallel"] * 5 + ["reduction"] * 2,
            [image, ("%window", window)],
            ("%pooled_start", kind),
            ["%larger = arith.maxsi %a0, %a2 : i8", "linalg.yield %larger : i8"],
        )
        return "%pooled", kind

    def strides(self, layout: Layout, rows: int = 0, columns: int = 0) -> tuple[int, ...]:
        """Of an image of results (pooled, if given) in elements."""
        p = self.layer.problem
        rows, columns = rows or p.Q, columns or p.P
        return (rows * columns * layout.pitch, columns * layout.pitch, layout.pitch, layout.group, 1)

    def store(self, value: tuple[str, str], out: str) -> None:
        layer, p, pool = self.layer, self.layer.problem, self.layer.pooling
        rows, columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
        shaped = self.view(
            "output",
            layer.output_extent,
            out,
            (p.N, rows, columns, p.groups, p.K),
            self.strides(layer.output, rows, columns),
        )
        local = value[1].replace("tensor<", "memref<")
        self.put(f"%stored = bufferization.to_buffer {value[0]} : {value[1]} to {local}")
        self.put(f'"memref.copy"(%stored, %output_view) : ({local}, {shaped}) -> ()')


def _scaled(value: str, kind: str, scale: float, prefix: str) -> list[str]:
    """Lines that make `%{prefix}_low`, an i8, of an integer: a float32 product, to nearest even, saturated."""
    factor = float(np.float32(scale))
    one = f"%{prefix}"
    return [
        f"{one}_float = arith.sitofp {value} : {kind} to f32",
        f"{one}_factor = arith.constant {factor!r} : f32" if "." in repr(factor) and "e" not in repr(factor)
        else f"{one}_factor = arith.constant {factor:.17e} : f32",
        f"{one}_product = arith.mulf {one}_float, {one}_factor : f32",
        f"{one}_even = math.roundeven {one}_product : f32",
        f"{one}_bottom = arith.constant -128.0 : f32",
        f"{one}_top = arith.constant 127.0 : f32",
        f"{one}_above = arith.maximumf {one}_even, {one}_bottom : f32",
        f"{one}_within = arith.minimumf {one}_above, {one}_top : f32",
        f"{one}_low = arith.fptosi {one}_within : f32 to i8",
    ]  # fmt: skip


def _position(result: str, stride: int, window: str, dilation: int) -> str:
    """Index of a pixel in the padded image."""
    a = result if stride == 1 else f"{result} * {stride}"
    b = window if dilation == 1 else f"{window} * {dilation}"
    return f"{a} + {b}"


def _element(kind: str) -> str:
    return kind.rstrip(">").rsplit("x", 1)[1]


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
