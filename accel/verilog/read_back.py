"""Ports, parameters and instances of generated Verilog, read back from the text and held against the configuration.

An independent reader, Pyverilog, sees the text after Verilator's preprocessor; nothing of the generator's own
knowledge of the sources is used. (Pyverilog only reads here: what it writes is not always the same design.)
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.system import System
from baco.accel.verilog.expression import evaluate
from baco.accel.verilog.generate import TOP, rtl_parameters
from baco.common.errors import BacoError, InputError
from baco.common.scratch import scratch_folder

#: Rounds of a generate loop after which it is taken for endless.
_MAX_ROUNDS = 1 << 16


@dataclass(frozen=True)
class Port:
    """One port: `direction` is `input` or `output`, `width` in bits."""

    name: str
    direction: str
    width: int


@dataclass(frozen=True)
class Instance:
    """One module in its place.

    Args:
        path: names from the top on, separated by dots; the top is the module's name.
        module: name of the module.
        parameters: values of its parameters here, those left at their defaults included.
        ports: in the order of their declaration, with the widths they have here.
    """

    path: str
    module: str
    parameters: dict[str, int]
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Hierarchy:
    """All instances of a design, parents before children, the top first."""

    instances: tuple[Instance, ...]

    @property
    def top(self) -> Instance:
        """The module everything is in."""
        return self.instances[0]

    @property
    def modules(self) -> dict[str, int]:
        """Number of instances by module name, in the order of first use."""
        counts: dict[str, int] = {}
        for one in self.instances:
            counts[one.module] = counts.get(one.module, 0) + 1
        return counts


def read_hierarchy(verilog: str, top: str = TOP) -> Hierarchy:
    """Elaborate preprocessed Verilog as far as ports, parameters, generate blocks and instances go.

    Raises InputError when Pyverilog is not installed, BacoError for text it cannot read or a missing module.
    """
    modules = _parse(verilog)
    if top not in modules:
        raise BacoError(f"the Verilog has no module '{top}'")
    return Hierarchy(tuple(_elaborate(modules, top, top, {})))


def _parse(verilog: str) -> dict[str, Any]:
    if importlib.util.find_spec("pyverilog") is None:
        raise InputError("reading Verilog back needs Pyverilog", hint="install it: pip install 'baco[rtl]'")
    from pyverilog.vparser.ast import ModuleDef  # type: ignore[import-untyped]
    from pyverilog.vparser.parser import ParseError  # type: ignore[import-untyped]

    parser = _parser()
    parser.lexer.reset_lineno()
    try:
        tree = parser.parse(verilog)
    except ParseError as error:
        raise BacoError(f"Pyverilog cannot read the Verilog: {error}") from None
    return {one.name: one for one in tree.description.definitions if isinstance(one, ModuleDef)}


@cache
def _parser() -> Any:
    """The one parser of this process: its tables take most of a second to make."""
    from pyverilog.vparser.parser import VerilogParser  # type: ignore[import-untyped]

    # its parser generator leaves files behind
    with scratch_folder() as folder:
        return VerilogParser(outputdir=str(folder), debug=False)


def _elaborate(
    modules: dict[str, Any], path: str, name: str, overrides: dict[str, int]
) -> Iterator[Instance]:
    from pyverilog.vparser.ast import Decl, Ioport, Localparam, Parameter  # type: ignore[import-untyped]

    module = modules[name]
    parameters: dict[str, int] = {}
    for declaration in module.paramlist.params if module.paramlist else ():
        for declared in declaration.list if isinstance(declaration, Decl) else (declaration,):
            parameters[declared.name] = overrides.get(
                declared.name, evaluate(declared.value.var, parameters | overrides)
            )
    unknown = sorted(set(overrides) - set(parameters))
    if unknown:
        raise BacoError(f"{path}: module '{name}' has no parameter '{unknown[0]}'")
    values = dict(parameters)
    for item in module.items:
        for declared in item.list if isinstance(item, Decl) else ():
            if isinstance(declared, (Localparam, Parameter)):
                # bit patterns and the like, which no width or instance depends on, need not be understood
                with suppress(BacoError):
                    values[declared.name] = evaluate(declared.value.var, values)
    ports = []
    for port in module.portlist.ports if module.portlist else ():
        if not isinstance(port, Ioport):
            raise BacoError(f"{path}: port '{port.name}' has no direction in the module's head")
        width = port.first.width
        bits = 1 if width is None else evaluate(width.msb, values) - evaluate(width.lsb, values) + 1
        ports.append(Port(port.first.name, type(port.first).__name__.lower(), bits))
    yield Instance(path, name, parameters, tuple(ports))
    for item in module.items:
        yield from _inside(modules, path, item, values)


def _inside(modules: dict[str, Any], path: str, item: Any, values: dict[str, int]) -> Iterator[Instance]:
    """Instances below one item of a module or of a generate block."""
    from pyverilog.vparser import ast  # type: ignore[import-untyped]

    if isinstance(item, ast.InstanceList):
        for instance in item.instances:
            place = f"{path}.{instance.name}"
            if instance.module not in modules:
                raise BacoError(f"{place}: there is no module '{instance.module}'")
            given = {}
            for argument in instance.parameterlist or item.parameterlist or ():
                if argument.paramname is None:
                    raise BacoError(f"{place}: parameters must be given by name")
                given[argument.paramname] = evaluate(argument.argname, values)
            yield from _elaborate(modules, place, instance.module, given)
    elif isinstance(item, ast.GenerateStatement):
        for inner in item.items:
            yield from _inside(modules, path, inner, values)
    elif isinstance(item, ast.Block):
        scope = f"{path}.{item.scope}" if item.scope else path
        for inner in item.statements:
            if isinstance(inner, ast.Decl):
                for declared in inner.list:
                    if isinstance(declared, ast.Localparam):
                        values = {**values, declared.name: evaluate(declared.value.var, values)}
            yield from _inside(modules, scope, inner, values)
    elif isinstance(item, ast.IfStatement):
        taken = item.true_statement if evaluate(item.cond, values) else item.false_statement
        if taken is not None:
            yield from _inside(modules, path, taken, values)
    elif isinstance(item, ast.ForStatement):
        yield from _loop(modules, path, item, values)


def _loop(modules: dict[str, Any], path: str, loop: Any, values: dict[str, int]) -> Iterator[Instance]:
    name = loop.pre.left.var.name
    values = {**values, name: evaluate(loop.pre.right.var, values)}
    for _ in range(_MAX_ROUNDS):
        if not evaluate(loop.cond, values):
            return
        label = getattr(loop.statement, "scope", None)
        for one in _inside(modules, "", loop.statement, values):
            # the scope that the block added gets its index
            rest = one.path.removeprefix(f".{label}") if label else one.path
            place = f"{path}.{label}[{values[name]}]{rest}" if label else f"{path}{rest}"
            yield Instance(place, one.module, one.parameters, one.ports)
        values = {**values, name: evaluate(loop.post.right.var, values)}
    raise BacoError(f"{path}: a generate loop over '{name}' does not end")


def discrepancies(hierarchy: Hierarchy, accelerator: Accelerator) -> list[str]:
    """Where the hardware read back is not the one configured, one sentence each; empty when it is.

    Compared are the parameters and ports of `baco_accelerator`, which is the top or what the top has on a bus, every parameter
    that carries the name of one of its, and which units are there.
    """
    expected = rtl_parameters(accelerator)
    top = next((one for one in hierarchy.instances if one.module == TOP), None)
    if top is None:
        return [f"there is no module {TOP}"]
    found = [
        f"{top.path}: the configuration's {name} is {value}, but the module has no such parameter"
        for name, value in expected.items()
        if name not in top.parameters
    ]
    for one in hierarchy.instances:
        for name, value in one.parameters.items():
            if name in expected and value != expected[name]:
                found.append(f"{one.path}: {name} is {value}, the configuration says {expected[name]}")
    found += _port_discrepancies(top, _top_ports(accelerator))
    features = accelerator.features
    for module, wanted in (
        ("baco_load", True),
        ("baco_execute", True),
        ("baco_store", True),
        ("baco_mesh", True),
        ("baco_loop_ws", features.loop_ws),
        ("baco_loop_conv", features.loop_conv),
    ):
        count = hierarchy.modules.get(module, 0)
        if count != wanted:
            found.append(f"there should be {int(wanted)} of the module {module}, not {count}")
    return found


def system_discrepancies(hierarchy: Hierarchy, system: System) -> list[str]:
    """As `discrepancies` of each accelerator of a system, in which modules of one name may have numbers behind it."""
    found = []
    for number, unit in enumerate(system.units):
        place = f"{hierarchy.top.path}.unit{number}"
        inside = tuple(
            replace(one, module=re.sub(r"_\d+$", "", one.module))
            for one in hierarchy.instances
            if one.path == place or one.path.startswith(f"{place}.")
        )
        if unit.accelerator is not None:
            found += discrepancies(Hierarchy(inside), unit.accelerator)
        elif inside:
            found.append(f"{place}: the unit has no accelerator")
    return found


def _port_discrepancies(top: Instance, expected: dict[str, tuple[str, int]]) -> list[str]:
    found = []
    ports = {one.name: one for one in top.ports}
    for name, (direction, width) in expected.items():
        port = ports.get(name)
        if port is None:
            found.append(f"{top.path}: port {name} is missing")
        elif (port.direction, port.width) != (direction, width):
            found.append(
                f"{top.path}: port {name} is an {port.direction} of {port.width} bits,"
                f" it should be an {direction} of {width}"
            )
    return found


def _top_ports(accelerator: Accelerator) -> dict[str, tuple[str, int]]:
    """Direction and width of the top's ports for commands and memory."""
    parameters = rtl_parameters(accelerator)
    address, beat = parameters["ADDR_BITS"], accelerator.dma_bits
    inputs = {"clock": 1, "reset": 1, "cmd_valid": 1, "cmd_funct": 7, "cmd_rd": 5, "cmd_xd": 1, "cmd_rs1": 64}
    inputs |= {"cmd_rs2": 64, "resp_ready": 1, "rd_req_ready": 1, "rd_resp_valid": 1, "rd_resp_data": beat}
    inputs |= {"wr_req_ready": 1, "wr_ack_valid": 1}
    outputs = {"cmd_ready": 1, "resp_valid": 1, "resp_rd": 5, "resp_data": 64, "busy": 1, "error_valid": 1}
    outputs |= {"error_code": 4, "error_funct": 7, "error_rs1": 64, "error_rs2": 64, "rd_req_valid": 1}
    outputs |= {"rd_req_addr": address, "rd_req_size": 3, "rd_resp_ready": 1, "wr_req_valid": 1}
    outputs |= {"wr_req_addr": address, "wr_req_data": beat, "wr_req_mask": beat // 8}
    return {name: ("input", width) for name, width in inputs.items()} | {
        name: ("output", width) for name, width in outputs.items()
    }
