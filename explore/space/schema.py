"""The JSON Schema of space files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.common.files import atomic_write
from baco.exploration.space.file import SEARCHED, SpaceFile

SCHEMA_PATH = Path(__file__).parents[1] / "spaces" / "space.schema.json"


def space_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the space file, for editors; committed at `SCHEMA_PATH`."""
    schema = SpaceFile.model_json_schema()
    accelerator = Accelerator.model_json_schema()
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    definitions.update(accelerator.pop("$defs", {}))
    properties = {k: v for k, v in accelerator["properties"].items() if k not in (*SEARCHED, "name")}
    fixed = schema["properties"]["fixed"]
    schema["properties"]["fixed"] = {
        "type": "object",
        "description": fixed["description"],
        "properties": properties,
        "additionalProperties": False,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def main() -> None:
    """Write the committed copy of the schema: `python -m baco.exploration.space.schema`."""
    atomic_write(SCHEMA_PATH, json.dumps(space_json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
