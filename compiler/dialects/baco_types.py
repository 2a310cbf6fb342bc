"""Types of the `baco` dialect, and what its verifiers share. Users import them from `baco.compiler.dialects.baco`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float32Type,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    f8E4M3FN,
    f8E5M2,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

index = IndexType()
ui8 = IntegerType(8, Signedness.UNSIGNED)
f32 = Float32Type()
#: Elements of floating point, by `Accelerator.input_format`; their sums are `f32`.
FLOAT_ELEMENTS: dict[str, AnyFloat] = {"fp8-e4m3": f8E4M3FN, "fp8-e5m2": f8E5M2, "bf16": BFloat16Type()}
FLOAT_TYPES: tuple[Attribute, ...] = (*FLOAT_ELEMENTS.values(), f32)
#: Element types of arrays, hence of loads and stores.
STORED_TYPES = (i8, ui8, i16, i32, *FLOAT_TYPES)
DATA_TYPES = (i1, *STORED_TYPES)
ELEMENT_TYPES = (*DATA_TYPES, index)

#: Elements and dimensions of the largest block; more are a mistake.
MOST_BLOCK_ELEMENTS, MOST_BLOCK_RANK = 2**20, 8

#: Operations of a kernel; each becomes some ten of the host core's.
MOST_KERNEL_OPERATIONS = 2000

#: Names of the attributes of a kernel's function.
GRID = "baco.grid"
SIZES = "baco.sizes"


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!baco.ptr<i8>`: the address of an element of an array of one of `STORED_TYPES`."""

    name = "baco.ptr"

    pointee: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parser.parse_type(),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)

    def verify(self) -> None:
        if self.pointee not in STORED_TYPES:
            names = ", ".join(map(str, STORED_TYPES[:-1]))
            raise VerifyException(f"a pointer points to {names} or {STORED_TYPES[-1]}, not {self.pointee}")


def element_type(value_type: Attribute) -> Attribute:
    """The element type of a block, or the type itself."""
    return value_type.element_type if isinstance(value_type, TensorType) else value_type


def shape_of(value_type: Attribute) -> tuple[int, ...]:
    """The shape of a block; () of a scalar."""
    return tuple(value_type.get_shape()) if isinstance(value_type, TensorType) else ()


def block_type(shape: Sequence[int], element: Attribute) -> Attribute:
    """`tensor<shape x element>`, or `element` for the shape ()."""
    return TensorType(element, shape) if len(shape) else element


def check_value(value_type: Attribute, elements: Sequence[Attribute], what: str) -> None:
    if any(size < 1 for size in shape_of(value_type)):
        raise VerifyException(
            f"{what} has the shape {shape_of(value_type)}; every size must be known and positive"
        )
    if element_type(value_type) not in elements:
        names = ", ".join(map(str, elements))
        raise VerifyException(
            f"{what} has elements of type {element_type(value_type)}, expected one of {names}"
        )


def check_pointer(value_type: Attribute) -> Attribute:
    """The pointee of a pointer or block of pointers."""
    pointer = element_type(value_type)
    if not isinstance(pointer, PointerType):
        raise VerifyException(f"expected a pointer or a block of pointers, got {value_type}")
    return pointer.pointee


def value_range(element: Attribute) -> tuple[int, int]:
    """The least and greatest value of an element type (`index`: of 64 bits); of floating point 0, the one constant there is."""
    if element in FLOAT_TYPES:
        return 0, 0
    if not isinstance(element, IntegerType):
        return -(2**63), 2**63 - 1
    width = element.width.data
    if width == 1 or element.signedness.data == Signedness.UNSIGNED:
        return 0, 2**width - 1
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1
