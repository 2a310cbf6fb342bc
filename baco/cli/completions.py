"""What a shell may complete an argument with."""

from __future__ import annotations


def network_completions(incomplete: str) -> list[str]:
    """Built-in networks that begin so."""
    from baco.workloads.inputs.load import network_names

    return [name for name in network_names() if name.startswith(incomplete)]


def accelerator_completions(incomplete: str) -> list[str]:
    """Presets that begin so; behind a comma, keys of what may differ."""
    from baco.accel.config import Accelerator
    from baco.accel.presets import preset_names

    before, comma, key = incomplete.rpartition(",")
    if comma:
        return [f"{before},{name}=" for name in Accelerator.model_fields if name.startswith(key)]
    return [name for name in preset_names() if name.startswith(incomplete)]
