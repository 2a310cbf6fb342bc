"""Why what the search predicted of a design is not what its compiled programs are predicted to take."""

from __future__ import annotations

from baco.compiler.schedules.text import parse_layer
from baco.exploration.validate.result import ValidatedDesign

__all__ = ["prediction_change"]


def prediction_change(one: ValidatedDesign) -> str:
    """What became of a design's mappings and groups in its programs, in a sentence; empty where there is one prediction only.

    The search predicts layers one by one under its mappings, and groups as they were chosen before it. The compiler knows what
    rides on each layer in the program: it gives every layer the better of the mapping and its own schedules, and chooses groups anew.
    """
    design = one.design
    if design.searched is None or design.predicted is None or design.searched == design.predicted:
        return ""
    chosen: dict[object, set[str]] = {}
    groups = 0
    for program in design.programs:
        if program.plan is not None:
            groups += len(program.plan["groups"])
            for layer, schedule in program.plan["schedules"].items():
                chosen.setdefault(parse_layer(layer).problem, set()).add(schedule)
    searched = [(parse_layer(layer.layer).problem, layer.schedule) for layer in design.layers]
    alone = [(problem, schedule) for problem, schedule in searched if problem in chosen]
    kept = sum(chosen[problem] == {schedule} for problem, schedule in alone)
    return (
        f"{design.name}: the search predicted {design.searched.latency_cycles:,.0f} cycles, its compiled"
        f" program{'s are' if len(design.programs) > 1 else ' is'} predicted to take {design.predicted.latency_cycles:,.0f}. Of"
        f" {len(searched)} different layers {kept} run as the search mapped them, {len(alone) - kept} as the compiler chooses knowing"
        f" what rides on them, {len(searched) - len(alone)} in groups alone; {groups} groups run as one unit, chosen anew."
    )
