"""What a study says of itself beside designs: its set-up, where it comes from, and who worked on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from baco.common.provenance import Provenance
from baco.exploration._json import dump, from_json, load, reader
from baco.exploration.candidate import CostModelName
from baco.exploration.rest import RestOfPrograms


class SetupRecord(TypedDict):
    """What determines a study's result, budget and versions apart (see `baco.exploration.studies.preparation.describe_setup`).

    `whole` says whether costs are of whole programs, with what these do beside the tasks, or of the tasks alone.
    `blocks` are there where a kernel was explored (`baco.exploration.search.searcher.SearchSetup`).
    """

    workload: dict[str, Any]
    space: str
    space_name: str
    space_hash: str
    objective: str
    searcher: str
    seed: int
    cost_model: CostModelName
    whole: bool
    fusion: bool
    blocks: NotRequired[list[list[int]]]


class ProgramsRecord(TypedDict):
    """What a search knows of whole programs: `rest`, what they do beside the tasks (`baco.exploration.rest.RestOfPrograms`),
    `units`, whether row functions are searched, and `far`, whether it is known that nothing is near the constraints; `open`,
    which is there as long as the search has not decided yet which operators run as one unit."""

    rest: dict[str, Any]
    units: bool
    far: bool
    open: NotRequired[bool]


@dataclass(frozen=True)
class DecidedPrograms:
    """What a search knows of whole programs.

    Attributes:
        rest: what they do beside the tasks.
        units: whether row functions are searched (see `StudyRecord.searches_units`).
        far: whether it is known that nothing is near the constraints (see `StudyRecord.far_off`).
    """

    rest: RestOfPrograms
    units: bool
    far: bool = False

    def record(self, *, open: bool) -> str:
        """As a study keeps it; `open` as of `ProgramsRecord`."""
        found: ProgramsRecord = {"rest": self.rest.to_json(), "units": self.units, "far": self.far}
        return dump(found | {"open": True} if open else found)


class ProvenanceRecord(TypedDict):
    """`baco.common.provenance.Provenance` as plain values."""

    versions: dict[str, str]
    seed: int
    configuration_hash: str
    command: str
    started: str
    platform: dict[str, str | int]


class SessionRecord(ProvenanceRecord):
    """A process that worked on the study, and what it was allowed to spend."""

    samples: Annotated[int, Field(ge=1, le=2**53)] | None
    time_limit: Annotated[float, Field(gt=0)] | None


def provenance_record(provenance: Provenance) -> ProvenanceRecord:
    """As it is kept."""
    return from_json(ProvenanceRecord, provenance.to_dict())


@reader("the set-up")
def setup_from_json(record: str) -> SetupRecord:
    """Raises InputError for malformed text."""
    return from_json(SetupRecord, load(record))


@reader("what its programs do")
def programs_from_json(record: str) -> ProgramsRecord:
    """Raises InputError for malformed text."""
    return from_json(ProgramsRecord, load(record))


@reader("the provenance")
def provenance_from_json(record: str) -> ProvenanceRecord:
    """Raises InputError for malformed text."""
    return from_json(ProvenanceRecord, load(record))


@reader("a session")
def session_from_json(record: str) -> SessionRecord:
    """Raises InputError for malformed text."""
    return from_json(SessionRecord, load(record))
