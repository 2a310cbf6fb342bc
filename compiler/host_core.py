"""The host core's data cache, as far as costs depend on it (sim/cpp/host.h)."""

LINE_BYTES, SETS, WAYS = 64, 64, 8
CACHE_BYTES = LINE_BYTES * SETS * WAYS
#: What a line that is not in the cache delays the core.
MISS_CYCLES = 60.0
