"""What a shell may complete an argument with."""

from __future__ import annotations

__all__ = ["accelerator_completions", "network_completions"]


def network_completions(incomplete: str) -> list[str]:
    """Built-in networks that begin so."""
    from baco.workloads.inputs.load import network_names

    return [name for name in network_names() if name.startswith(incomplete)]


def accelerator_completions(incomplete: str) -> list[str]:
    """Presets that begin so."""
    from baco.accel.presets import preset_names

    return [name for name in preset_names() if name.startswith(incomplete)]
