"""What was measured of a design, put beside what was predicted of the parts of its programs."""

from __future__ import annotations

from baco.exploration.breakdown import CostEntry, DesignCosts, MeasuredPart, Where, plain_name
from baco.exploration.candidate import Cost
from baco.exploration.measure.measured_design import Design, DesignProgram

#: What a program does before its first operator and behind its last.
START_AND_END = "start and end of the program"


def with_measurements(costs: DesignCosts, validated: Design | None) -> DesignCosts:
    """The costs of a design with what was measured of it; as they are where not all of it was.

    A compiled program may group operators otherwise than the search did: then there are entries that only one of both has.
    """
    if validated is None or validated.measured is None:
        return costs
    if not validated.programs:
        return _with_layers(costs, validated, validated.measured)
    parts: dict[tuple[str, str, bool], MeasuredPart] = {}
    more: dict[tuple[str, str, bool], CostEntry] = {}
    terms: dict[str, float] = {}
    networks: dict[str, tuple[float, float]] = {}
    known = {entry.key for entry in (*costs.layers, *costs.beside)}
    names = {(entry.network, name): entry.name for entry in costs.layers for name in entry.operators}
    for program in validated.programs:
        assert program.measured is not None  # the cost is known
        weight, measured = program.weight, program.measured
        networks[program.network] = weight * measured.cycles, weight * measured.energy_pj
        for name, value in measured.energy_terms_pj.items():
            terms[name] = terms.get(name, 0.0) + weight * value
        for entry, part in _program_parts(program, names):
            key = entry.key
            parts[key] = parts[key].plus(part) if key in parts else part
            if key not in known:
                more.setdefault(key, entry)
    made = [_with_part(entry, parts[key]) for key, entry in more.items()]
    return costs.with_measured(validated.measured, parts, networks, made, terms)


def _with_part(entry: CostEntry, part: MeasuredPart) -> CostEntry:
    return CostEntry(**{**vars(entry), "measured": part})


def _with_layers(costs: DesignCosts, validated: Design, cost: Cost) -> DesignCosts:
    """With layers measured one by one; what programs do besides counts as predicted."""
    parts: dict[tuple[str, str, bool], MeasuredPart] = {}
    for entry, result, count in zip(costs.layers, validated.layers, validated.runs, strict=True):
        if count > 0 and result.measured is not None:
            one = result.measured
            parts[entry.key] = MeasuredPart(count, count * one.cycles, count * one.energy_pj)
    for entry in costs.beside if costs.whole else ():
        part = MeasuredPart(entry.runs, entry.total_cycles, entry.total_pj, assumed=True)
        key = entry.key
        parts[key] = parts[key].plus(part) if key in parts else part
    networks: dict[str, tuple[float, float]] = {}
    for (network, *_), part in parts.items():
        cycles, energy = networks.get(network, (0.0, 0.0))
        networks[network] = cycles + part.cycles, energy + (part.energy_pj or 0.0)
    return costs.with_measured(cost, parts, networks)


def _program_parts(
    program: DesignProgram, names: dict[tuple[str, str], str]
) -> list[tuple[CostEntry, MeasuredPart]]:
    """Of every operator of a program the entry that it belongs to, and its part; then what is left of the program's cycles.

    Args:
        names: of layers, by network and operator.
    """
    measured = program.measured
    assert measured is not None
    weight, network = program.weight, program.network
    inside: dict[str, str] = {}
    for group in program.plan.groups if program.plan is not None else ():
        inside.update(dict.fromkeys(group.split(" > "), group))
    found: list[tuple[CostEntry, MeasuredPart]] = []
    seen: set[str] = set()
    for one in measured.operators:
        unit = inside.get(one.operator, one.operator)
        grouped = one.operator in inside
        runs = 0.0 if unit in seen else weight
        seen.add(unit)
        members = tuple(map(plain_name, unit.split(" > "))) if grouped else (plain_name(unit),)
        name = " > ".join(members) if grouped else names.get((network, members[0]), members[0])
        function = "group" if grouped else one.what.removeprefix("host: ").partition(":")[0]
        on: Where = "host" if one.on == "host" else "accelerator"
        entry = CostEntry(
            network, name, "group" if grouped else "operator", function, on, 0.0, 0.0, {}, members
        )
        found.append((entry, MeasuredPart(runs, weight * one.cycles)))
    left = measured.cycles - sum(one.cycles for one in measured.operators)
    entry = CostEntry(network, START_AND_END, "operator", "start", "host", 0.0, 0.0, {})
    return [*found, (entry, MeasuredPart(weight, weight * left))]
