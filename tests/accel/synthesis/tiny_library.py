"""A library of seven cells, written out: delays are linear in load, so that paths can be added up by hand.

Every gate: delay = OWN ps + LOAD ps/fF x load, the same for both edges and any slew; output slew 20 ps. What an edge of an
output takes inside is ENERGY fJ, whatever its load; of the register's clock CLOCK fJ where it keeps what it holds, else nothing.
"""

from __future__ import annotations

from pathlib import Path

#: Intrinsic delay, ps, and capacitance of an input, fF, by cell; delay by load of all, ps/fF.
OWN = {"INV": 10, "BUF": 18, "NAND2": 14, "NOR2": 16, "XOR2": 30, "DFF": 50}
INPUT_FF = {"INV": 2, "BUF": 2, "NAND2": 3, "NOR2": 4, "XOR2": 5, "DFF": 2}
AREA = {"INV": 1.0, "BUF": 1.5, "NAND2": 1.5, "NOR2": 1.5, "XOR2": 3.0, "DFF": 8.0}
#: Of a rising and of a falling output, and of a rising and a falling clock, fJ.
ENERGY = {"INV": (1, 2), "BUF": (2, 3), "NAND2": (2, 4), "NOR2": (3, 5), "XOR2": (6, 7), "DFF": (11, 13)}
CLOCK = (9, 5)
LOAD_PS_A_FF, SETUP_PS, SLEW_PS = 3, 25, 20
FUNCTIONS = {"INV": "!A", "BUF": "A", "NAND2": "!(A & B)", "NOR2": "!(A | B)", "XOR2": "(A ^ B)"}
SENSES = {
    "INV": "negative_unate",
    "BUF": "positive_unate",
    "NAND2": "negative_unate",
    "NOR2": "negative_unate",
    "XOR2": "non_unate",
}


def tiny_library(time: str = "ps", load: str = "ff", without: tuple[str, ...] = ()) -> str:
    """The text; `time`, `load`: units that its numbers are in; `without`: cells left out."""
    second, farad = {"ps": 1.0, "ns": 1e-3}[time], {"ff": 1.0, "pf": 1e-3}[load]

    def table(kind: str, values: list[float], template: str = "delays") -> str:
        numbers = ", ".join(f"{value * second:g}" for value in values)
        return f'{kind} ({template}) {{ values ("{numbers}", "{numbers}"); }}'

    joule = farad  # times volts squared

    def power(kind: str, values: tuple[int, int], when: str = "") -> str:
        tables = " ".join(
            f'{edge} (scalar) {{ values ("{value * joule:g}"); }}'
            for edge, value in zip(("rise_power", "fall_power"), values, strict=True)
        )
        return f"internal_power () {{ {kind} {when} {tables} }}"

    def timing(cell: str, pin: str, kind: str, sense: str) -> str:
        delays = [OWN[cell] + LOAD_PS_A_FF * x for x in (0, 100)]
        tables = [table(edge, delays) for edge in ("cell_rise", "cell_fall")]
        tables += [table(edge, [SLEW_PS] * 2) for edge in ("rise_transition", "fall_transition")]
        return f'timing () {{ related_pin : "{pin}"; timing_type : {kind}; timing_sense : {sense}; {" ".join(tables)} }}'

    cells = []
    for cell, function in FUNCTIONS.items():
        inputs = ["A", "B"] if "B" in function else ["A"]
        pins = [
            f"pin ({pin}) {{ direction : input; capacitance : {INPUT_FF[cell] * farad:g}; }}"
            for pin in inputs
        ]
        arcs = " ".join(timing(cell, pin, "combinational", SENSES[cell]) for pin in inputs)
        inside = " ".join(power(f'related_pin : "{pin}";', ENERGY[cell]) for pin in inputs)
        pins.append(f'pin (Y) {{ direction : output; function : "{function}"; {arcs} {inside} }}')
        cells.append((cell, " ".join(pins)))
    held = power("", CLOCK, 'when : "(D * Q) + (!D * !Q)";')
    taken = power('related_pin : "CK";', ENERGY["DFF"])
    setup = " ".join(table(edge, [SETUP_PS] * 2, "setups") for edge in ("rise_constraint", "fall_constraint"))
    cells.append(
        (
            "DFF",
            'ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }'
            f" pin (CK) {{ direction : input; clock : true; capacitance : {2 * farad:g};"
            f" {held} }}"
            f" pin (D) {{ direction : input; capacitance : {INPUT_FF['DFF'] * farad:g};"
            f' timing () {{ related_pin : "CK"; timing_type : setup_rising; {setup} }} }}'
            f' pin (Q) {{ direction : output; function : "IQ"; {timing("DFF", "CK", "rising_edge", "non_unate")}'
            f" {taken} }}",
        )
    )
    body = "\n".join(
        f"cell ({name}) {{ area : {AREA[name]}; cell_leakage_power : {AREA[name]}; {text} }}"
        for name, text in cells
        if name not in without
    )
    axes = f'index_1 ("0, {1000 * second:g}");'
    return f"""/* seven cells */
library (tiny) {{
  delay_model : table_lookup; time_unit : "1{time}"; capacitive_load_unit (1, {load}); leakage_power_unit : "1nW";
  voltage_unit : "1V"; nom_voltage : 1.0; nom_temperature : 25;
  lu_table_template (delays) {{ variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    {axes} index_2 ("0, {100 * farad:g}"); }}
  lu_table_template (setups) {{ variable_1 : related_pin_transition; variable_2 : constrained_pin_transition;
    {axes} index_2 ("0, {1000 * second:g}"); }}
{body}
}}
"""


def tiny_file(folder: Path, **changes: object) -> Path:
    """A file of it."""
    path = folder / "tiny.lib"
    path.write_text(tiny_library(**changes))  # type: ignore[arg-type]
    return path
