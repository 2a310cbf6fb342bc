"""A quantised network as a list of calls: layers and additions on the accelerator, the rest by the host's C functions.

Where a view of a value is nothing that a layer can read or write in place, it is copied, constants while compiling
and everything else by the program. What no schedule can compute, the host computes.
"""

from __future__ import annotations

import math
from dataclasses import replace

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.addition import diagonals, identity, plan_addition, plan_coded_sum
from baco.compiler.network.combinations import Combinations
from baco.compiler.network.diagonal import block_diagonal, row_strips
from baco.compiler.network.fuse_elements import fused_elements
from baco.compiler.network.gates import gates_on_host
from baco.compiler.network.gather import plan_gather
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import GroupScheduler
from baco.compiler.network.layers import (
    MatrixCalls,
    convolution_layer,
    is_image,
    matmul_layer,
    matrix_pitch,
    pooling_of,
)
from baco.compiler.network.lowered import ANY_SCALE, LoweredNetwork, Scheduler
from baco.compiler.network.output_stage import RequantisedPart, requantised_behind, requantised_parts
from baco.compiler.network.part_caller import PartCaller
from baco.compiler.network.pooling import plan_max_pool
from baco.compiler.network.rotation import rotation_product
from baco.compiler.network.rounds import Shared
from baco.compiler.network.row_code import (
    RowCode,
    plan_normalisation,
    plan_product,
    plan_softmax,
    plan_table,
    product_numbers,
)
from baco.compiler.network.step_writer import turned_rows
from baco.compiler.network.way_out import tables_behind, through
from baco.compiler.ops.elements import CodedSum
from baco.compiler.ops.elementwise import Addition, BinaryTable, Gate, Map, Multiplication
from baco.compiler.ops.images import MaxPool
from baco.compiler.ops.lookup import Embedding, Rotation
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import numerator_parts


def lower_network(
    network: QuantisedNetwork,
    accelerator: Accelerator,
    schedule: Scheduler,
    groups: GroupScheduler | None = None,
    combinations: Combinations | None = None,
) -> LoweredNetwork:
    """The calls that compute a network.

    Args:
        schedule: chooses how a layer is carried out; raises InfeasibleError for one that the accelerator cannot
            compute. Asked once for each different layer.
        groups: chooses how operators are carried out as one unit, if they are; None: none are. Of those that could be in several
            groups, those are that save most together.
        combinations: what else operators do together; by default nothing.

    Raises InfeasibleError for an operator without code.
    """
    return lower_operators(Lowering(network, accelerator, schedule, groups, combinations))


def lower_operators(lowering: Lowering) -> LoweredNetwork:
    """What a way to lower makes of all operators of its network."""
    for operator in lowering.network.operators:
        lowering.lower(operator)
    result = lowering.result
    called = {step.function for step in result.steps}
    # a layer that was looked at but became another one once an operand had been copied
    result.layers = {name: code for name, code in result.layers.items() if name in called}
    return result


def lower_on_host(network: QuantisedNetwork, accelerator: Accelerator, schedule: Scheduler) -> LoweredNetwork:
    """Every operator by the host core beside the accelerator; those that it has no function for have no step, and a note.

    `schedule` is asked for nothing.
    """
    return lower_operators(_OnHost(network, accelerator, schedule, None))


#: Operators whose result may lie where an operand of the same view lay.
_POINTWISE = (Map, Addition, CodedSum, Multiplication, BinaryTable, Softmax, Normalisation)


class Lowering(PartCaller):
    """Lowers a network, operator by operator; arguments as those of `lower_network`."""

    def __init__(
        self,
        network: QuantisedNetwork,
        accelerator: Accelerator,
        schedule: Scheduler,
        groups: GroupScheduler | None,
        combinations: Combinations | None = None,
    ) -> None:
        network = fused_elements(network)
        super().__init__(network, accelerator, schedule, groups)
        combinations = combinations or Combinations()
        self._sums, self._diagonals = combinations.sums, combinations.diagonals
        self._negative: set[str] = set()
        self._done: set[str] = set()
        #: Tables that results go through on their way out, by the operators that they follow.
        self._tables = tables_behind(network) if accelerator.features.row_functions else {}
        #: Requantisations of sums on their way out, likewise.
        self._requantised = requantised_behind(network) if accelerator.features.requantization else {}
        self._plan_groups(self._tables)
        if combinations.rides is not None and groups is None:
            self._done |= self._plan_rides(combinations.rides, self._tables)
        #: Products that the host computes with the function of an operand in them, by name, and names of these functions.
        self._gates = self._find_gates()
        self._gated = {function.name: name for name, (function, _) in self._gates.items()}
        if combinations.beside:
            self._plan_parts({*self._tables, *self._requantised, *self._done}, self._gates)
            self._done |= {op.name for work in self._shared.values() for op in work.operators[:-1]}

    def _find_gates(self) -> dict[str, tuple[Map, Gate]]:
        elsewhere = {*self._inner, *self._groups, *(table.name for table in self._tables.values())}
        return gates_on_host(self.network, self.accelerator, elsewhere)

    def lower(self, op: IntegerOperator) -> None:
        """Append the steps of an operator, and of a table that its results go through."""
        if op.name in self._done or op.name in self._inner:
            return
        if op.name in self._shared:
            self._call_shared(self._shared[op.name])
            return
        if op.name in self._gated:
            self.result.reasons[op.name] = f"within {self._gated[op.name]}"
            return
        if op.name in self._gates:
            _, op = self._gates[op.name]
        if op.name in self._groups:
            for one in self._call_group(op.name):
                behind = self._tables.get(one.name)
                if behind is not None:
                    self._done.add(behind.name)
                    self.result.reasons[behind.name] = f"on the way out of {one.name}"
                if behind is not None or not self._is_positive(one):
                    self._negative.add((behind or one).output.value)
            return
        if isinstance(op, Convolution | MatMul) and self._requantise(op):
            return
        self._operator, self._table = op.name, self._tables.get(op.name)
        following = self._table
        if following is not None:
            target = through(op, following)
            assert target is not None
            op = replace(op, output=target)
            self._operator = following.name
            self._done.add(following.name)
            self.result.reasons[following.name] = f"on the way out of {op.name}"
        if isinstance(op, Convolution):
            self._convolution(op)
        elif isinstance(op, MatMul):
            self._matmul(op)
        elif isinstance(op, Addition):
            self._addition(op)
        elif isinstance(op, CodedSum):
            self._coded_sum(op)
        elif isinstance(op, MaxPool):
            self._max_pool(op)
        elif isinstance(op, Map | Softmax | Normalisation | Multiplication):
            self._rows(op)
        elif isinstance(op, Embedding):
            self._gather(op)
        elif isinstance(op, Rotation):
            self._rotation(op)
        else:
            self._on_host(op, "the accelerator has no unit for it")
        if isinstance(op, _POINTWISE) and following is None:
            self._note_in_place(op, self._riding.get(op.name))
        if following is not None or not self._is_positive(op):
            self._negative.add(op.output.value)

    def _call_shared(self, work: Shared) -> None:
        """Append the steps of operators that accelerator and host compute in turns."""
        self._table = None
        for op in work.operators:
            if isinstance(op, _POINTWISE):
                self._note_in_place(op)
        self._in_rounds(work, self._matmul, self._addition)
        for op in work.operators:
            if not self._is_positive(op):
                self._negative.add(op.output.value)

    def _on_host(self, op: IntegerOperator, reason: str) -> None:
        """The host computes the operator, and the table behind it, in place."""
        if isinstance(op, Convolution | MatMul) and op.floats:
            raise InfeasibleError(
                f"'{op.name}' is a product of {op.floats.form}, which the host core does not compute, nor does {self.accelerator.name}: {reason.splitlines()[0]}"
            )
        self.result.reasons[self._operator] = reason
        self._host(op.host_call(self.values))
        if self._table is not None:
            here = replace(self._table, input=op.output, output=op.output)
            self._host(here.host_call(self.values))

    # ---------------------------------------------------------------- convolutions

    def _convolution(self, op: Convolution) -> None:
        op = replace(
            op,
            weight=self._constant(op.weight),
            bias=None if op.bias is None else self._constant(op.bias),
        )
        for strip in self._on_diagonals(op):
            self._single_convolution(strip)

    def _single_convolution(self, op: Convolution) -> None:
        if op.pool is not None:
            try:
                pooling_of(op.pool, op.output)
                if self._layer_of(self._on_images(op))[0] is None:
                    raise ValueError("no schedule")
            except ValueError:
                self._pool_afterwards(op)
                return
        source = op.input if is_image(op.input) else self._copied(op.input)
        op = replace(op, input=source)
        target = op.output
        if not is_image(target):
            op = replace(op, output=self._temporary(target.shape, target))
        name, weight = self._layer_of(op)
        if name is None:
            self._on_host(replace(op, output=target), self._refused)
            return
        self._call_layer(name, op.input, weight, op.bias, op.output, op.scale)
        if op.output is not target:
            self._copy(op.output, target)

    def _on_diagonals(self, op: Convolution) -> list[Convolution]:
        """The operator with several of its groups as one, in strips of rows, if it is to be: the same sums, and products with zeros."""
        several = op.floats is not None and op.weight.shape[2] > 1  # parts of two blocks of sums, maybe
        if self._diagonals is None or op.groups == 1 or several or op.weight.value not in self._data:
            return [op]
        try:
            layer = convolution_layer(self._on_images(op))
        except ValueError:
            return [op]
        together, rows = self._diagonals(replace(layer, scale=layer.scale and ANY_SCALE))
        own_scales = self._output is not None and self._output.by_column
        if together == 1 or (own_scales and together < op.groups):  # a scale is that of a column of the array
            return [op]
        elements = block_diagonal(self._elements(op.weight), op.groups, together)
        weight = self._add_constant(f"{op.weight.value}.diagonal{together}", elements)
        whole = replace(op, weight=weight, groups=op.groups // together)
        return [whole] if rows == layer.problem.Q else row_strips(whole, rows)

    def _on_images(self, op: Convolution) -> Convolution:
        """The operator as it will be once what is no image has been copied; for choosing only."""
        source, target = (
            view if is_image(view) else dense(view.value, view.shape) for view in (op.input, op.output)
        )
        return replace(op, input=source, output=target)

    def _pool_afterwards(self, op: Convolution) -> None:
        """A convolution whose pooling the accelerator cannot do: the host pools the whole result."""
        pool = op.pool
        assert pool is not None
        shape = (op.input.shape[0], *op.size, op.output.shape[3])
        whole = self._temporary(shape, op.output)
        self._convolution(replace(op, pool=None, output=whole))
        if not self._is_positive(op):
            self._negative.add(whole.value)
        one = (1, 1)
        self._max_pool(MaxPool(op.name, (), op.output, whole, pool.kernel, pool.stride, pool.padding, one))

    def _layer_of(self, op: Convolution) -> tuple[str | None, View]:
        """The function of a convolution, None if it has none, and the weights that it takes."""
        try:
            layer = convolution_layer(op)
        except InputError as error:  # a window that meets no pixel, say
            self._note(op.name, str(error))
            self._refused = str(error)
            return None, op.weight
        return self._with_weights(layer, op.weight)

    # ---------------------------------------------------------------- products

    def _matmul(self, op: MatMul) -> None:
        if op.bias is not None:
            op = replace(op, bias=self._constant(op.bias))
        op = replace(op, right=self._with_aligned_rows(op.right))
        target = op.output
        if self._with_weights(self._on_matrices(op).layer, op.right)[0] is None:
            self._on_host(op, self._refused)
            return
        if not _has_rows(op.left):
            op = replace(op, left=self._copied(op.left))
        if not _has_rows(op.right) and not _has_rows(turned_rows(op.right)):
            op = replace(op, right=self._copied(op.right))
        if not _has_rows(op.output):
            op = replace(op, output=self._temporary(target.shape, target))
        calls = matmul_layer(op)
        assert calls is not None, "every operand has rows now"
        name, right = self._with_weights(calls.layer, op.right)
        if name is None:  # the copies made it another layer
            self._on_host(replace(op, output=target), self._refused)
            return
        self._call_layer(name, op.left, right, op.bias, op.output, op.scale, calls.offsets)
        if op.output is not target:
            self._copy(op.output, target)

    def _rotation(self, op: Rotation) -> None:
        """A product; what the accelerator cannot compute in place is less work for the host as a rotation."""
        found = rotation_product(op, self._elements)
        product = found.product
        if not _has_rows(product.left) or not _has_rows(product.output):
            self._on_host(op, "the features of a head are not neighbours in memory")
        elif self._layer_name(self._on_matrices(product).layer) is None:
            self._on_host(op, self._refused)
        else:
            self._add_constant(found.name, found.matrices)
            self._matmul(product)

    @staticmethod
    def _on_matrices(op: MatMul) -> MatrixCalls:
        """As `_on_images`."""

        def usable(view: View, transposed: bool = False) -> View:
            if _has_rows(view) or (transposed and _has_rows(turned_rows(view))):
                return view
            return dense(view.value, view.shape)

        calls = matmul_layer(
            replace(op, left=usable(op.left), right=usable(op.right, True), output=usable(op.output))
        )
        assert calls is not None
        return calls

    # ---------------------------------------------------------------- requantisation on the way out

    def _requantise(self, op: Convolution | MatMul) -> bool:
        """Whether the accelerator requantises the sums of an operator itself, which it then does, channels in parts."""
        behind = self._requantised.get(op.name)
        if behind is None:
            return False
        self._operator = behind.name

        def parts() -> list[RequantisedPart]:
            return requantised_parts(op, behind, self._elements(behind.factors), self.accelerator.dim)

        if not parts() or not all(self._requantises(one) for one in parts()):
            return False
        if isinstance(op, Convolution) and not is_image(op.input):
            op = replace(op, input=self._copied(op.input))
        for one in parts():
            with self._through(one, behind.factors.value):
                if isinstance(one.product, Convolution):
                    self._convolution(one.product)
                else:
                    self._matmul(one.product)
        self._done.add(behind.name)
        self.result.reasons[behind.name] = f"on the way out of {op.name}"
        if behind.low < 0:
            self._negative.add(behind.output.value)
        return True

    def _requantises(self, part: RequantisedPart) -> bool:
        op = part.product
        with self._through(part):
            if isinstance(op, Convolution):
                name, _ = self._layer_of(self._on_images(op))
            else:
                aligned = replace(op, right=self._with_aligned_rows(op.right))
                name = self._layer_name(self._on_matrices(aligned).layer)
        if name is None:
            return False
        code = self.result.layers[name]
        return part.fits(code.layer, code.schedule)

    # ---------------------------------------------------------------- additions

    def _addition(self, op: Addition) -> None:
        if op.name in self._riding:
            self._ride(self._riding[op.name], op)
            return
        code = plan_addition(op, self.accelerator)
        if code is None:
            self._on_host(op, "its operands or scales are none that the accelerator adds")
            return
        code = replace(code, table=self._table is not None)
        ones = self._add_constant(f"identity{self.accelerator.dim}", identity(self.accelerator.dim))
        views = (ones, op.left, op.right)
        tables = self._packed_tables()
        self._run(
            self._code("addition", code),
            (*views, op.output, *tables),
            (float32_bits(one) for one in (op.left_scale, op.right_scale, op.scale)),
            (*views, *tables),
            op.output,
        )

    def _coded_sum(self, op: CodedSum) -> None:
        code = plan_coded_sum(op, self.accelerator)
        if code is None:
            self._on_host(op, "its operands or scales are none that the accelerator adds")
            return
        elements = diagonals(op, self.accelerator.dim)
        name = f"diagonals{self.accelerator.dim}.{elements[0, 0]}.{elements[-1, -1]}"
        matrices = self._add_constant(name, elements)
        views = (matrices, op.left, op.right)
        scales = (float32_bits(one) for one in (1.0, 1.0, op.scale))
        self._run(self._code("addition", code), (*views, op.output), scales, views, op.output)

    # ---------------------------------------------------------------- functions of rows

    def _rows(self, op: Map | Softmax | Normalisation | Multiplication) -> None:
        code: RowCode | str
        numbers: tuple[int, ...] = ()
        if isinstance(op, Map):
            code = plan_table(op, self.accelerator)
            if any(self.values[one.value].dtype != "int8" for one in (op.input, op.output)):
                code = "its elements are wider than int8"
        elif isinstance(op, Softmax):
            code = plan_softmax(op, self._mask(op), self.accelerator)
            numbers = numerator_parts(op.numerator) or ()
        elif isinstance(op, Multiplication):
            code, numbers = plan_product(op, self.accelerator), product_numbers(op)
        else:
            code, numbers = plan_normalisation(op, self.accelerator), (op.shift, op.epsilon)
        if isinstance(code, str):
            shared = self._summed(op, self._matmul) if isinstance(op, Normalisation) else op
            self._on_host(shared, code)
            return
        sources, parameters = op.inputs, list[View]()
        if not isinstance(op, Multiplication):
            sources, parameters = (op.input,), [] if code.function == "copy" else [self._packed(op)]
        self._run(
            self._code(code.function, code),
            (*sources, op.output, *parameters),
            numbers,
            (*sources, *parameters),
            op.output,
        )

    def _copy(self, source: View, target: View) -> None:
        """Part of the current operator."""
        table, reasons = self._table, dict(self.result.reasons)
        self._table = None
        self._rows(Map(self._operator, (), target, source, None))
        # it says nothing about the operator, which is computed elsewhere
        self._table, self.result.reasons = table, reasons

    def _gather(self, op: Embedding) -> None:
        code = plan_gather(op, self.accelerator)
        if isinstance(code, str):
            self._on_host(op, code)
            return
        read = (op.indices, op.table)
        self._run(
            self._code("embedding", code),
            (*read, op.output),
            (),
            read,
            op.output,
            host=True,
        )

    # ---------------------------------------------------------------- pooling

    def _max_pool(self, op: MaxPool) -> None:
        code = plan_max_pool(op, self.accelerator, non_negative=self._never_negative(op.input.value))
        if code is None:
            self._on_host(op, "the accelerator cannot pool its windows exactly")
            return
        self._run(self._code("pool", code), (op.input, op.output), (), (op.input,), op.output)

    def _never_negative(self, name: str) -> bool:
        """Whether every operator that writes the value so far leaves no negative element in it."""
        return self.values[name].role in ("intermediate", "output") and name not in self._negative

    def _is_positive(self, op: IntegerOperator) -> bool:
        if isinstance(op, Convolution | MatMul | Addition | CodedSum):
            return op.relu and op.scale is not None and op.scale >= 0
        if isinstance(op, MaxPool):
            return self._never_negative(op.input.value)
        return isinstance(op, Softmax)

    # ---------------------------------------------------------------- operands

    def _copied(self, view: View) -> View:
        """A dense copy of a view."""
        if view.value in self._data:
            return self._constant(view)
        copy = self._temporary(view.shape, view)
        self._copy(view, copy)
        return copy

    # ---------------------------------------------------------------- memory

    def _note_in_place(self, op: IntegerOperator, riding: Convolution | None = None) -> None:
        """Remember that the result may replace an operand: same view, nothing else of it is read.

        Args:
            riding: whose results reach the operator elsewhere.
        """
        for view in op.inputs:
            if riding is not None and view.value == riding.output.value:
                continue
            others = [other for other in op.inputs if other.value == view.value]
            if (
                self.values[view.value].role == self.values[op.output.value].role == "intermediate"
                and all(_same_elements(other, op.output) for other in others)
                and math.prod(self.values[view.value].shape) == view.words
                and view.words == math.prod(self.values[op.output.value].shape)
            ):
                self.result.in_place.setdefault(op.output.value, view.value)
                return


class _OnHost(Lowering):
    """What the accelerator has no part in."""

    def lower(self, op: IntegerOperator) -> None:
        """Append the call of an operator, by itself."""
        self._operator, self._table = op.name, None
        try:
            if isinstance(op, Convolution) and op.pool is not None:
                self._pool_afterwards(op)
            else:
                stored = self._as_stored(op) if isinstance(op, Normalisation) else op
                self._on_host(stored, "all is the host's")
        except InfeasibleError as error:
            self._note(op.name, str(error))

    def _convolution(self, op: Convolution) -> None:
        self._on_host(op, "all is the host's")

    def _max_pool(self, op: MaxPool) -> None:
        self._on_host(op, "all is the host's")


def _has_rows(view: View) -> bool:
    """Whether the last two dimensions are matrices of contiguous rows."""
    return matrix_pitch(*view.shape[-2:], *view.strides[-2:]) is not None


def _same_elements(a: View, b: View) -> bool:
    """Element i of one lies where element i of the other does, in their values."""
    one, other = a.collapsed(), b.collapsed()
    return (one.shape, one.strides, one.offset) == (other.shape, other.strides, other.offset)
