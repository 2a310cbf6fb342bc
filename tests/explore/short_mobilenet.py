"""Imported in another process, it has `mobilenet_v2` as short there as the fixture `short_networks` has it here."""

from baco.workloads.networks import mobilenet

mobilenet.STAGES = mobilenet.STAGES[:3]
