"""A mapped design as Verilog that simulates: every cell as the function that its Liberty file gives it, registers included.

One module of the design's name and ports, so that it stands in for the RTL. Each net of the flat design is one signal, `n`
and its number. At every rising edge of the clock, when all signals have settled, it counts which nets switched since the
edge before and which are high; at the end it writes the counts to the file that `+switching=` names, where it is given.

Counters of 64 nets lie beside each other: bit b of all of them is one word, so that adding is a few words' carries a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import numpy as np

from baco.accel.synthesis.flat import Flat, Instances
from baco.accel.synthesis.functions import read_function
from baco.accel.synthesis.liberty import LibraryCell
from baco.accel.synthesis.mapping import MEMORY, ONE, BankShape
from baco.common.errors import BacoError

#: Nets counted side by side, and bits of a counter.
WORD, COUNTER_BITS = 64, 32
_COUNTERS = """
  localparam WORDS = {words};
  reg [63:0] now [0:WORDS-1];
  reg [63:0] last [0:WORDS-1];
  reg [63:0] switched [0:WORDS*{bits}-1];
  reg [63:0] high [0:WORDS*{bits}-1];
  reg [63:0] edges [0:0];
  reg [63:0] carry, sum;
  integer w, b;
  reg [8*4096-1:0] path;
  initial begin
    edges[0] = 0;
    for (w = 0; w < WORDS; w = w + 1) last[w] = 0;
    for (w = 0; w < WORDS*{bits}; w = w + 1) begin switched[w] = 0; high[w] = 0; end
  end
  always @(posedge {clock}) begin
    edges[0] = edges[0] + 1;
{sampled}
    for (w = 0; w < WORDS; w = w + 1) begin
      carry = edges[0] == 1 ? 0 : now[w] ^ last[w];
      last[w] = now[w];
      for (b = 0; b < {bits} && carry != 0; b = b + 1) begin
        sum = switched[w*{bits}+b];
        switched[w*{bits}+b] = sum ^ carry;
        carry = sum & carry;
      end
      carry = now[w];
      for (b = 0; b < {bits} && carry != 0; b = b + 1) begin
        sum = high[w*{bits}+b];
        high[w*{bits}+b] = sum ^ carry;
        carry = sum & carry;
      end
    end
  end
  final if ($value$plusargs("switching=%s", path)) begin
    $writememh({{path, ".edges"}}, edges);
    $writememh({{path, ".switched"}}, switched);
    $writememh({{path, ".high"}}, high);
  end
"""


def gate_verilog(flat: Flat, memories: Mapping[str, BankShape], top: str, *, counted: bool = True) -> str:
    """The text.

    Args:
        flat: the design in cells.
        memories: kinds of banks, as in `baco.accel.synthesis.mapping.Mapped`.
        top: name of the module.
        counted: with what counts switching.

    Open inputs of cells are 0. Raises BacoError for a cell that holds something but is no plain flip-flop.
    """
    body: list[str] = []
    registers: set[int] = set()
    extra = 0
    for name, instances in flat.instances.items():
        if name in memories:
            body += _memories(instances, memories[name])
        elif instances.cell.kind == "gate":
            body += _gates(instances)
        else:
            lines, held, extra = _registers(instances, extra)
            body += lines
            registers |= held
    ports, binding = _ports(flat)
    wires = [net for net in range(flat.nets) if net not in registers]
    memory = (resources.files("baco.accel") / "rtl" / f"{MEMORY}.v").read_text(encoding="utf-8")
    return "\n".join(
        [
            f"module {top} (",
            ",\n".join(ports),
            ");",
            *_declared("wire", [f"n{net}" for net in wires]),
            *_declared("reg", [f"n{net}" for net in sorted(registers)]),
            *_declared("reg", [f"r{number}" for number in range(extra)]),
            *binding,
            *body,
            _counters(flat) if counted else "",
            "endmodule",
            memory if memories else "",
        ]
    )


def _declared(kind: str, names: list[str]) -> list[str]:
    return [f"{kind} {', '.join(names[at : at + 32])};" for at in range(0, len(names), 32)]


def _counters(flat: Flat) -> str:
    words = -(-flat.nets // WORD)
    sampled = []
    for word in range(words):
        nets = range(word * WORD, min((word + 1) * WORD, flat.nets))
        bits = ", ".join(f"n{net}" for net in reversed(nets))
        sampled.append(f"    now[{word}] = {{{bits}}};")
    clock = _signal(int(flat.ports["clock"][1][0]))
    return _COUNTERS.format(words=words, bits=COUNTER_BITS, clock=clock, sampled="\n".join(sampled))


def _signal(net: int) -> str:
    """What a pin is on."""
    if net >= 0:
        return f"n{net}"
    return "1'b1" if net == ONE else "1'b0"


def _ports(flat: Flat) -> tuple[list[str], list[str]]:
    """Declarations of the ports, and what binds them to nets."""
    ports, binding = [], []
    for port, (direction, nets) in flat.ports.items():
        width = f" [{nets.size - 1}:0]" if nets.size > 1 else ""
        ports.append(f"  {direction} wire{width} {port}")
        for place, net in enumerate(nets.tolist()):
            bit = f"{port}[{place}]" if nets.size > 1 else port
            if direction == "output":
                binding.append(f"assign {bit} = {_signal(net)};")
            elif net >= 0:
                binding.append(f"assign n{net} = {bit};")
    return ports, binding


def _gates(instances: Instances) -> list[str]:
    lines = []
    for output in instances.cell.pins_of("output"):
        function = read_function(instances.cell.pins[output].function)
        column = instances.pins.index(output)
        for nets in instances.nets.tolist():
            if nets[column] >= 0:
                values = dict(zip(instances.pins, map(_signal, nets), strict=True))
                lines.append(f"assign n{nets[column]} = {function.verilog(values)};")
    return lines


def _registers(instances: Instances, extra: int) -> tuple[list[str], set[int], int]:
    """Statements of flip-flops, the nets that hold a state themselves, and the next number of those that no net holds.

    Args:
        extra: the first number.
    """
    cell = instances.cell
    register = cell.register
    if cell.kind != "flip-flop" or register is None:
        raise BacoError(f"gates of cell {cell.name}, a {cell.kind}, cannot be simulated")
    outputs = {pin: cell.pins[pin].function.strip("() ") for pin in cell.pins_of("output")}
    lines: list[str] = []
    held: set[int] = set()
    for nets in instances.nets.tolist():
        on = dict(zip(instances.pins, nets, strict=True))
        values = {pin: _signal(net) for pin, net in on.items()}
        state = next(
            (f"n{on[pin]}" for pin, text in outputs.items() if text == register.state and on[pin] >= 0), ""
        )
        if state:
            held.add(int(state[1:]))
        else:
            state, extra = f"r{extra}", extra + 1
        known = {**values, register.state: state, register.inverse: f"~{state}"}
        for pin, text in outputs.items():
            if on[pin] >= 0 and f"n{on[pin]}" != state:
                lines.append(f"assign n{on[pin]} = {read_function(text).verilog(known)};")
        lines.append(_clocked(cell, state, known))
    return lines, held, extra


def _clocked(cell: LibraryCell, state: str, values: Mapping[str, str]) -> str:
    """The statement of one flip-flop."""
    register = cell.register
    assert register is not None
    events = [f"posedge {read_function(register.clocked_on).verilog(values)}"]
    forced = ""
    for text, value in ((register.clear, "0"), (register.preset, "1")):
        if text:
            expression = read_function(text).verilog(values)
            if expression not in _NEVER:
                events.append(f"posedge {expression}")
                forced += f"if ({expression}) {state} <= 1'b{value}; else "
    taken = read_function(register.next_state).verilog(values)
    return f"always @({' or '.join(events)}) {forced}{state} <= {taken};"


#: Texts of what is never true: an input tied off.
_NEVER = ("1'b0", "~1'b1")


def _memories(instances: Instances, bank: BankShape) -> list[str]:
    lines = []
    pins = np.array([pin.split("[")[0] for pin in instances.pins])
    for number, nets in enumerate(instances.nets.tolist()):
        joined = []
        for pin in dict.fromkeys(pins):
            bits = [nets[place] for place in np.flatnonzero(pins == pin)]
            # outputs that nothing reads have no net
            text = (
                [f"n{bit}" if bit >= 0 else "" for bit in bits] if pin == "read_data" else map(_signal, bits)
            )
            joined.append((str(pin), list(text)))
        name = f"m{bank.rows}_{bank.lanes}_{bank.lane_bits}_{number}"
        ports = []
        for pin, bits_text in joined:
            if pin == "read_data":
                lines.append(f"wire [{len(bits_text) - 1}:0] {name}_data;")
                lines += [f"assign {bit} = {name}_data[{at}];" for at, bit in enumerate(bits_text) if bit]
                ports.append(f".{pin}({name}_data)")
            else:
                ports.append(f".{pin}({{{', '.join(reversed(bits_text))}}})")
        lines.append(
            f"{MEMORY} #(.ROWS({bank.rows}), .LANES({bank.lanes}), .LANE_BITS({bank.lane_bits})) {name} ({', '.join(ports)});"
        )
    return lines
