"""Finding the study that a command is given."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["study_file"]


def study_file(place: Path) -> Path:
    """The study in a folder, or the file itself. Raises InputError when there is none."""
    from common.errors import InputError, Location
    from explore.study import FILE_NAME

    # os.path, unlike Path, takes names that no file can have for missing ones
    study = place / FILE_NAME if os.path.isdir(place) else place
    if not os.path.exists(study):
        raise InputError(
            "there is no study here",
            location=Location(str(place)),
            hint=f"a study's folder holds {FILE_NAME}; explore writes one",
        )
    return study
