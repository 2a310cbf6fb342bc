"""Unrolling the repeated blocks of a network into copies with parameters of their own."""

from __future__ import annotations

from dataclasses import replace

from baco.common.errors import InputError, Location
from baco.workloads.network import Block, Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics


def expand(network: Network, layers: int | None = None) -> Network:
    """The same network with every block's operators written out as often as they run.

    Copies are called `name[0]`, `name[1]`... (nested ones `name[0][1]`), their parameters likewise. `layers` keeps
    only so many copies of every block ("a BERT of 2 layers"). What a block reads from outside, beside the tensor
    that is handed on and inputs of its own, all copies share. An output of the network inside of a block becomes
    one of every copy.

    Raises:
        InputError: operators that run several times without a block (rows of a layer table), or `layers` below 1.
    """
    if layers is not None and layers < 1:
        raise InputError(f"a block must run at least once, not {layers} times")
    expander = _Expander(network, layers)
    expander.copy(0, len(network.operators), len(network.blocks), "")
    outputs, names = [], []
    for name, tensor in network.named_outputs:
        copies = expander.outputs(tensor)
        outputs += copies
        # copies of an output are called as copies of operators are
        called = [name] if len(copies) == 1 else [f"{name}[{number}]" for number in range(len(copies))]
        names += called if network.output_names else []
    return replace(
        network,
        inputs=tuple(expander.inputs()),
        operators=tuple(expander.operators),
        blocks=(),
        outputs=tuple(outputs),
        output_names=tuple(names),
    )


class _Expander:
    def __init__(self, network: Network, layers: int | None) -> None:
        self.network = network
        self.layers = layers
        self.operators: list[Operator] = []
        #: Tensor of the original network -> the one that stands for it, under the steps of the original.
        self.current: dict[str, Tensor] = {}
        #: Steps of the original that the replacement already has.
        self.prefix: dict[str, int] = {}
        self._inside = 1
        #: Operator or input of a block -> its copies, in order; what blocks hand on has only the last.
        self._copies: dict[str, list[Tensor]] = {}
        self._handed_on = {block.output.name for block in network.blocks}

    def inputs(self) -> list[Tensor]:
        """Of the unrolled network."""
        return [copy for x in self.network.inputs for copy in self._copies.get(x.name, [x])]

    def outputs(self, tensor: Tensor) -> list[Tensor]:
        """What an output of the network becomes."""
        if tensor.name in self._handed_on or tensor.name not in self._copies:
            return [self.resolve(tensor)]
        return [Tensor(copy.name, tensor.shape, tensor.steps) for copy in self._copies[tensor.name]]

    def resolve(self, tensor: Tensor) -> Tensor:
        found = self.current.get(tensor.name)
        if found is None:
            return tensor
        rest = tensor.steps[self.prefix.get(tensor.name, 0) :]
        return Tensor(found.name, tensor.shape, (*found.steps, *rest))

    def copy(self, start: int, stop: int, inner: int, suffix: str) -> None:
        """Operators from start to stop; `inner`: how many of the first blocks may lie inside."""
        position = start
        while position < stop:
            # Outer blocks come later in the list, so the last that starts here is the outermost.
            index = next(
                (
                    i
                    for i in reversed(range(inner))
                    if (b := self.network.blocks[i]).start == position and b.stop <= stop and b.stop > b.start
                ),
                None,
            )
            if index is None:
                self._operator(self.network.operators[position], suffix)
                position += 1
            else:
                self._block(self.network.blocks[index], index, suffix)
                position = self.network.blocks[index].stop

    def _block(self, block: Block, inner: int, suffix: str) -> None:
        count = block.count if self.layers is None else min(block.count, self.layers)
        outer, self._inside = self._inside, self._inside * block.count
        outside = self.current.get(block.input.name), self.prefix.get(block.input.name, 0)
        handed_on = self.resolve(block.input)
        for number in range(count):
            self.current[block.input.name] = handed_on
            self.prefix[block.input.name] = len(block.input.steps)
            for name in block.inputs:
                self._input(name, f"{suffix}[{number}]")
            self.copy(block.start, block.stop, inner, f"{suffix}[{number}]")
            handed_on = self.resolve(block.output)
        self._inside = outer
        if outside[0] is None:
            del self.current[block.input.name], self.prefix[block.input.name]
        else:
            self.current[block.input.name], self.prefix[block.input.name] = outside[0], outside[1]

    def _input(self, name: str, suffix: str) -> None:
        shape = next(tensor.shape for tensor in self.network.inputs if tensor.name == name)
        self.current[name] = Tensor(name + suffix, shape)
        self._copies.setdefault(name, []).append(self.current[name])

    def _operator(self, op: Operator, suffix: str) -> None:
        if op.repeat != self._inside:
            raise InputError(
                f"it runs {op.repeat} times, but what its runs read is not known",
                location=Location(self.network.source, node=op.name),
                hint="a table of layers can be explored, not run as a network",
            )
        output = Tensor(op.output.name + suffix, op.output.shape)
        semantics = op.semantics
        inputs = tuple(self.current[name].name if name in self.current else name for name in op.inputs)
        if semantics is not None:
            operands = tuple(self._operand(operand, suffix) for operand in semantics.operands)
            semantics = Semantics(semantics.function, operands, semantics.attributes)
        self.operators.append(
            replace(op, name=op.name + suffix, inputs=inputs, output=output, repeat=1, semantics=semantics)
        )
        self.current[op.output.name] = output
        if suffix:
            self._copies.setdefault(op.output.name, []).append(output)
        self.prefix.pop(op.output.name, None)

    def _operand(self, operand: Operand, suffix: str) -> Operand:
        if isinstance(operand, Tensor):
            return self.resolve(operand)
        if isinstance(operand, Parameter) and suffix:
            return operand.renamed(operand.name + suffix)
        return operand
