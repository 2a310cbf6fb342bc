"""The parser of the IR's text: xDSL's, which notes where operations begin and stops at what is beyond limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap, AffineSet
from xdsl.parser import AffineParser, Parser
from xdsl.utils.lexer import Span

from baco.compiler.ir.limits import (
    MOST_AFFINE_TERMS,
    MOST_ATTRIBUTES,
    MOST_BLOCKS,
    MOST_CONSTANTS,
    MOST_NESTED,
    MOST_OPERATIONS,
    type_beyond_limits,
)


class IrParser(Parser):
    """Notes the line of every operation, and counts what it has read.

    Attributes:
        started: where the operations begin that are being read.
    """

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self.file = StringAttr(name)
        self.text = text
        self.started: list[int] = []
        self._counted, self._line = 0, 1
        self._operations = 0
        #: Attributes read so far, aliases written out, and the depth of the one that was read last.
        self._attributes = self._depth = 0
        self._aliases: dict[str, tuple[int, int]] = {}

    def parse_operation(self) -> Operation:
        """As the parser's, with the location where the text gives none."""
        start = self._current_token.span.start
        self.started.append(start)
        self._operations += 1
        if self._operations > MOST_OPERATIONS:
            self.raise_error(f"the text has more than {MOST_OPERATIONS:,} operations")
        line = self._line_of(start)
        op = super().parse_operation()
        self.started.pop()
        if isinstance(op.location, UnknownLoc):
            column = start - self.text.rfind("\n", 0, start)
            op.location = FileLineColLoc(self.file, IntAttr(line), IntAttr(column))
        return op

    def parse_optional_region(self, arguments: Sequence[Parser.Argument] | None = None) -> Region | None:
        """As the parser's."""
        region = super().parse_optional_region(arguments)
        if region is not None and len(region.blocks) > MOST_BLOCKS:
            self.raise_error(f"a region has at most {MOST_BLOCKS:,} blocks")
        return region

    def _line_of(self, position: int) -> int:
        """Line of a position that is not before the one asked last."""
        if position < self._counted:
            return self.text.count("\n", 0, position) + 1
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    # ------------------------------------------------------------ attributes and types

    def parse_optional_type(self) -> TypeAttribute | None:
        """As the parser's. A type beyond limits is an error before anything is made of it."""
        start = self._current_token.span.start
        found: TypeAttribute | None = self._measured(super().parse_optional_type)
        if found is not None and (reason := type_beyond_limits(found)):
            self.raise_error(reason, start, self._current_token.span.start)
        return found

    def parse_optional_attribute(self) -> Attribute | None:
        """As the parser's."""
        found: Attribute | None = self._measured(super().parse_optional_attribute)
        return found

    def _measured(self, parse: Callable[[], Any]) -> Any:
        """What `parse` gives, counted: equal or printed, an attribute is written out, however often aliases share it."""
        outer, self._depth = self._depth, 0
        found = parse()
        if found is not None:
            self._attributes += 1
            self._depth += 1
            if self._attributes > MOST_ATTRIBUTES:
                self.raise_error(f"there are more than {MOST_ATTRIBUTES:,} attributes, aliases written out")
            if self._depth > MOST_NESTED:
                self.raise_error(f"attributes are nested more than {MOST_NESTED} deep, aliases written out")
        self._depth = max(outer, self._depth)
        return found

    def _parse_alias_def(self) -> None:
        name, before = self._current_token.text, self._attributes
        self._depth = 0
        super()._parse_alias_def()  # type: ignore[no-untyped-call]
        self._aliases[name] = self._attributes - before, self._depth
        self._depth = 0

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        found = super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)  # type: ignore[call-overload]
        count, depth = self._aliases.get(("!" if is_type else "#") + attr_or_dialect_name, (0, 0))
        self._attributes += count
        self._depth = max(self._depth, depth)
        return found

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """As the parser's, which makes a list of all elements."""
        if type is not None:
            self._check_constant(type)
        return super().parse_dense_int_or_fp_elements_attr(type)

    def _parse_dense_literal_type(self) -> Any:
        found = super()._parse_dense_literal_type()
        self._check_constant(found)
        return found

    def _check_constant(self, kind: Any) -> None:
        if kind.element_count() > MOST_CONSTANTS:
            self.raise_error(
                f"a constant has at most {MOST_CONSTANTS:,} elements, not {kind.element_count():,}"
            )

    def parse_affine_map(self) -> AffineMap:
        """As the parser's."""
        return _BoundedAffineParser(self._parser_state).parse_affine_map()

    def parse_affine_set(self) -> AffineSet:
        """As the parser's."""
        return _BoundedAffineParser(self._parser_state).parse_affine_set()

    def parse_affine_map_of_ssa_ids(self) -> tuple[AffineMap, Sequence[SSAValue[Any]]]:
        """As the parser's, which no operation of a program needs."""
        self.raise_error("a list of affine expressions is not read here")


class _BoundedAffineParser(AffineParser):
    """Its expressions are computed with as they are read, and printed recursively."""

    _terms = 0

    def _parse_primary(self, parse_optional_bare_id: Callable[[], AffineExpr | None]) -> AffineExpr:
        self._terms += 1
        if self._terms > MOST_AFFINE_TERMS:
            self.raise_error(f"an affine map has at most {MOST_AFFINE_TERMS} names and numbers")
        return super()._parse_primary(parse_optional_bare_id)

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: Any) -> AffineExpr:
        result = super()._create_binop_expr(lhs, rhs, binop)
        if isinstance(result, AffineConstantExpr) and abs(result.value) >= 1 << 63:
            span: Span = binop.span
            self.raise_error("a number of an affine map has more than 64 bits", span.start, span.end)
        return result
