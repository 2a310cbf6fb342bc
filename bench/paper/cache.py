"""Finished pieces of the evaluation, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from baco.bench.code_hash import code_hash
from baco.common.errors import StorageError
from baco.common.files import check_output, output_folder, storage_error
from baco.common.provenance import stable_hash

Json = dict[str, Any]


class RecordCache:
    """Records by key in a file of JSON lines; a record is on disk when `get` returns it.

    Args:
        path: of the file; created, with its folder, when the first record is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Json] = {}
        #: Whether the last line was cut off by a kill.
        self._torn = False
        if path.exists():
            text = _text(path)
            self._torn = not text.endswith("\n")
            self._known = dict(_records(text))

    def get(self, subject: Json, code: str, make: Callable[[], Json]) -> Json:
        """The record of `subject`, made and kept if it is not there.

        Args:
            subject: plain JSON that says what the record is of.
            code: module that makes it: a record made by other code (`baco.bench.code_hash`) is not found.
        """
        key = stable_hash({"code": code_hash(code), "subject": subject})
        if key not in self._known:
            self.put(key, make())
        return self._known[key]

    def put(self, key: str, record: Json) -> None:
        """Keep a record. Raises StorageError."""
        output_folder(self.path.parent)
        check_output(self.path)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                if self._torn:
                    file.write("\n")
                    self._torn = False
                file.write(json.dumps({"key": key, "record": record}, separators=(",", ":")) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, self.path) from None
        self._known[key] = record


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"'{path}' cannot be read: {error}", hint="delete it") from None


def _records(text: str) -> Iterable[tuple[str, Json]]:
    """Records of whole lines, with their keys."""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("record"), dict):
            yield str(entry.get("key")), entry["record"]
