"""All tile sizes of a structure, one by one: what searches are compared with."""

from collections.abc import Iterator

from baco.compiler.mapping.structure import Choice, TreeStructure
from baco.exploration.samplers.mcts import SizedTree, rated


def all_sizes(structure: TreeStructure) -> Iterator[SizedTree]:
    """Every tree of a structure that runs on the machine."""
    order = structure.choices()

    def further(made: dict[Choice, int]) -> Iterator[SizedTree]:
        if len(made) == len(order):
            found = rated(structure, made)
            if found is not None:
                yield found
            return
        choice = order[len(made)]
        for size in structure.options(choice, made):
            yield from further({**made, choice: size})

    yield from further({})
