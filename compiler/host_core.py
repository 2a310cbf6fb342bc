"""The host core, as far as costs depend on it: its data cache (sim/cpp/host.h), and the cycles in which it writes commands.

What commands cost depends on the code that writes them. Layers, chains, strips and loops that load ahead have constants fitted to
theirs: `baco.compiler.latency.host`, `baco.compiler.styles.fused.predict`, `strip_costs.json`, `baco.compiler.blocks.busy`. C
functions: `baco.compiler.ops.host_model`.
"""

LINE_BYTES, SETS, WAYS = 64, 64, 8
CACHE_BYTES = LINE_BYTES * SETS * WAYS
#: What a line that is not in the cache delays the core.
MISS_CYCLES = 60.0
#: The same before the original Gemmini: from the second level, or through it from main memory.
ROCKET_MISS_CYCLES = 34.0
#: For a command, where all sizes are known, as measured on the kernels of `baco.bench.kernels`.
COMMAND_CYCLES = 7.5


def miss_cycles(timing: str) -> float:
    """What a line that is not in the cache delays the core that one of `baco.accel.config.TIMINGS` is of."""
    return ROCKET_MISS_CYCLES if timing == "gemmini" else MISS_CYCLES
