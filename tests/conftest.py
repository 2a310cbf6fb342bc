"""Settings of every test run."""

import os
import tempfile

# Tests run side by side, one process a core: more threads a process only make them wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Simulators are built once for all tests, and not in the user's own cache.
os.environ["BACO_CACHE"] = os.path.join(tempfile.gettempdir(), f"baco-test-cache-{os.getuid()}")
