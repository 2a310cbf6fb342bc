"""What comes before a search: its study, made as soon as it is known what is searched, and the programs beside the layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baco.common.door import argument, words
from baco.common.errors import InfeasibleError, InputError, Location, StorageError
from baco.common.files import output_folder
from baco.common.provenance import Provenance, stable_hash, versions
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import check_cost_model, default_cost_model
from baco.exploration.objective import Objective
from baco.exploration.progress import Doing
from baco.exploration.records import ProvenanceRecord, SetupRecord, provenance_record
from baco.exploration.rest import RestBySettings, RestOfPrograms
from baco.exploration.serialize import workload_to_json
from baco.exploration.space import DesignSpace
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.network import Task, Workload

if TYPE_CHECKING:
    from baco.exploration.cost.program_rest import Programs


def describe_setup(
    workload: Workload,
    space: DesignSpace,
    objective: Objective,
    searcher: str,
    seed: int,
    cost_model: CostModelName = "reference",
    *,
    whole: bool = False,
    fusion: bool = False,
    blocks: Sequence[tuple[int, int, int]] = (),
) -> SetupRecord:
    """What determines a study's result, budget and versions apart, as plain JSON.

    The space is kept as YAML and the networks as whole graphs, so that a report needs no other file.
    """
    record: SetupRecord = {
        "workload": workload_to_json(workload),
        "space": space.to_yaml(),
        "space_name": space.name,
        "space_hash": space.space_hash,
        "objective": str(objective),
        "searcher": searcher,
        "seed": int(seed),
        "cost_model": cost_model,
        "whole": whole,
        "fusion": fusion,
    }
    if blocks:
        record["blocks"] = [list(one) for one in blocks]
    return record


def made_now(record: SetupRecord, command: str | None) -> ProvenanceRecord:
    """Where a study of this set-up, or a session of it, comes from; by default from this process's command line."""
    now = Provenance.now(seed=record["seed"], configuration_hash=stable_hash(record), command=command)
    return provenance_record(now)


def already_there(path: Path) -> StorageError:
    """The error for a new study where there is one."""
    return StorageError(
        "a study is already here",
        location=Location(str(path)),
        hint=words(
            "continue it with --resume, or choose another --out",
            "continue it with resume=True, or choose another out",
        ),
    )


@contextlib.contextmanager
def opened_study(
    out: Path,
    record: SetupRecord,
    workload: Workload,
    tasks: Callable[[], Sequence[Task]],
    made: ProvenanceRecord,
    *,
    resume: bool,
    note: Callable[[str], None],
) -> Iterator[StudyRecord]:
    """The study in `out`, new or resumed, for a block that searches.

    A new one whose search turns out to be refused before it has done anything leaves nothing behind.

    Args:
        tasks: what a new study searches; asked for only then.

    Raises InputError where the settings differ from those of the study to resume, StorageError where a study is in the
    way, or cannot be opened or made.
    """
    path = output_folder(out) / FILE_NAME
    new = not path.exists()
    if new:
        if resume:
            note(f"there is no study in {path.parent} yet: starting one")
        study = StudyRecord.create(path, record, tasks(), made)
    elif not resume:
        raise already_there(path)
    else:
        study = StudyRecord.open(path)
    with study:
        if not new:
            _check_same(study, record, workload, note)
        try:
            yield study
        except (InputError, InfeasibleError):
            if new and not study.batches:
                study.discard()
            raise


def _check_same(
    study: StudyRecord, record: SetupRecord, workload: Workload, note: Callable[[str], None]
) -> None:
    """Raises InputError for a study that was made with other settings."""
    differences = _differences(study, record, workload)
    if differences:
        raise InputError(
            "the study was made with other settings: " + "; ".join(differences),
            location=Location(str(study.path)),
            hint=f"resume with the study's own settings (`{study.provenance['command']}`), "
            f"or choose another {argument('out')}",
        )
    made, now = study.provenance["versions"], versions()
    changed = [
        f"{name} {made.get(name, 'absent')} -> {now.get(name, 'absent')}"
        for name in sorted({*made, *now})
        if made.get(name) != now.get(name)
    ]
    if changed:
        note(
            "versions have changed since the study was started, so its result may differ from that of an "
            f"uninterrupted run ({', '.join(changed)})"
        )


def _differences(study: StudyRecord, record: SetupRecord, workload: Workload) -> list[str]:
    """What keeps a study from being resumed with the settings of `record`, in words."""
    found = []
    if study.workload().tasks != workload.tasks:
        theirs, ours = (
            ", ".join(f"{network['name']} x{weight:g}" for network, weight in zip(*pair, strict=True))
            for pair in ((w["networks"], w["weights"]) for w in (study.setup["workload"], record["workload"]))
        )
        same = " (same names, other problems or counts)" if theirs == ours else ""
        found.append(f"network is {theirs} in the study, {ours} now{same}")
    if study.setup["space_hash"] != record["space_hash"]:
        theirs, ours = (f"{r['space_name']} ({r['space_hash']})" for r in (study.setup, record))
        found.append(f"space is {theirs} in the study, {ours} now")
    for name in ("objective", "searcher", "seed", "cost_model"):
        before, now = dict(study.setup)[name], dict(record)[name]
        if before != now:
            found.append(f"{name.replace('_', ' ')} is {before} in the study, {now} now")
    if study.setup["whole"] != record["whole"]:
        before, now = (
            "whole programs" if one["whole"] else "tensor operators alone" for one in (study.setup, record)
        )
        found.append(f"costs are those of {before} in the study, of {now} now")
    if study.setup["fusion"] != record["fusion"]:
        before, now = ("on" if one["fusion"] else "off" for one in (study.setup, record))
        found.append(f"fusion is {before} in the study, {now} now")
    return found


def programs_beside(
    study: StudyRecord,
    workload: Workload,
    space: DesignSpace,
    programs: Programs,
    note: Callable[[str], None],
    doing: Doing,
) -> tuple[DesignSpace, RestOfPrograms]:
    """What the programs of a study's networks do beside the tasks, as it was found before, or found now and without groups; and
    the space, without row functions where these cannot pay.
    """
    known = study.rest
    if known is not None and not space.settings:
        rest = known
    else:
        from baco.exploration.cost.program_rest import rest_by_settings, rest_in_space  # loads the compiler

        find = rest_by_settings if space.settings else rest_in_space
        rest = find(workload, space, doing, programs)
    for name, reason in rest.reasons.items():
        if any(rest.operators[name].values()):
            note(
                f"{name} cannot become one program ({reason}): what its host operators take is estimated from the graph"
            )
    units = study.searches_units if known is not None else units_may_pay(space, rest)
    if space.search_units and not units:
        space, rest = space.without_units(), rest.without_units()
    if isinstance(known, RestBySettings) and isinstance(rest, RestBySettings):
        rest = dataclasses.replace(known, find=rest.find)
    return space, rest


def units_may_pay(space: DesignSpace, rest: RestOfPrograms) -> bool:
    """Whether row functions are worth searching in a space with that choice: false where it is proven that they would cost
    area and static energy for nothing, since they are of use only in what programs do beside the tasks."""
    return rest.units_may_pay(power_bounded=space.constraints.power_mw is not None)


def settled(
    space: DesignSpace, model: CostModelName, note: Callable[[str], None], *, whole: bool, fusion: bool
) -> tuple[DesignSpace, bool, bool]:
    """Space, `whole` and `fusion` of `baco.exploration.studies.engine.run_exploration` as far as a cost model and a timing have them."""
    whole = whole and model == "instruction"
    if space.search_units and space.base.timing == "gemmini":
        note("the original Gemmini has no row functions: only accelerators without them are searched")
        space = space.without_units()
    if not whole:  # what row functions are for does not count
        space = space.without_units()
    fusion = fusion and whole and space.base.timing == "baco"
    if fusion and space.settings:
        fusion = False
        note(
            "operators run one by one while settings are searched; explore with the best ones fixed to fuse some"
        )
    return space, whole, fusion


def studied_model(name: str | None, space: DesignSpace, study: Path | None) -> CostModelName:
    """The model asked for, else that of the study to resume, else the space's default."""
    if name is not None:
        return check_cost_model(name, space)
    if study is None or not study.exists():
        return default_cost_model(space)
    with StudyRecord.open(study, read_only=True) as earlier:
        return earlier.cost_model
