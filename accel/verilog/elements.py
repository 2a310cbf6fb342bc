"""What Verilog says of the width of an element: written once in the sources, put in where a configuration is known.

Sources have the macros of `MACROS` where text depends on that width. They are replaced before conditionals are resolved,
so that Verilog for elements of 8 bits says `8` and `DIM`, and no macro of these is left in it.
"""

from __future__ import annotations

import re

#: Texts for elements of 8 and of 16 bits, by macro; `@` stands for the argument of those that take one.
MACROS: dict[str, tuple[str, str]] = {
    # of an element: bits, its highest bit and the one below, and what stands below its number in the number of its first bit
    "ELEMENT_BITS": ("8", "16"),
    "ELEMENT_TOP": ("7", "15"),
    "ELEMENT_NEXT": ("6", "14"),
    "ELEMENT_PLACES": ("3'b000", "4'b0000"),
    # bytes of a row of DIM elements, its logarithm, and elements of a beat
    "ROW_BYTES": ("DIM", "(2 * DIM)"),
    "LOG_ROW_BYTES": ("LOG_DIM", "(LOG_DIM + 1)"),
    "BUS_ELEMENTS": ("BUS", "(BUS / 2)"),
    # bytes of a number of elements, in two bits more than that has; and of one of 32 bits, in 32 bits
    "BYTES": ("{2'b00, @}", "{1'b0, @, 1'b0}"),
    "OFFSET": ("@", "@[30:0], 1'b0"),
    # of an integer: the least and the most; bits of a sum above its own, and with its sign
    "ELEMENT_LEAST": ("8'h80", "16'h8000"),
    "ELEMENT_MOST": ("8'h7f", "16'h7fff"),
    "ELEMENT_REST": ("24", "16"),
    "ELEMENT_BEYOND": ("25", "17"),
    # of a product of two: its highest bit, and what stands for the signs of partial products (Baugh and Wooley)
    "PRODUCT_TOP": ("15", "31"),
    "PRODUCT_SIGNS": ("16'h8100", "32'h80010000"),
    # modules of floating point
    "PRODUCT": ("baco_fp8_product", "baco_bf16_product"),
    "WIDEN": ("baco_fp8_widen", "baco_bf16_widen"),
    "NARROW": ("baco_fp8_narrow", "baco_bf16_narrow"),
}
_USE = re.compile(rf"`({'|'.join(MACROS)})\b(?:\((\w+)\))?")


def of_width(text: str, bits: int) -> str:
    """A source with the macros of `MACROS` replaced, as elements of `bits` bits (8 or 16) have it. Lines stay."""

    def put(use: re.Match[str]) -> str:
        name, argument = use.groups()
        said = MACROS[name][bits // 16]
        if ("@" in said) != (argument is not None):
            raise ValueError(f"`{name} {'needs an' if argument is None else 'takes no'} argument")
        return said.replace("@", argument or "")

    return _USE.sub(put, text)
