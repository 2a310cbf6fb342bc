"""The host core's data cache, as far as costs depend on it (sim/cpp/host.h)."""

LINE_BYTES, SETS, WAYS = 64, 64, 8
CACHE_BYTES = LINE_BYTES * SETS * WAYS
#: What a line that is not in the cache delays the core.
MISS_CYCLES = 60.0
#: The same before the original Gemmini: from the second level, or through it from main memory.
ROCKET_MISS_CYCLES = 34.0


def miss_cycles(timing: str) -> float:
    """What a line that is not in the cache delays the core that one of `baco.accel.config.TIMINGS` is of."""
    return ROCKET_MISS_CYCLES if timing == "gemmini" else MISS_CYCLES
