"""Settings of every test run."""

import os

# Tests run side by side, one process a core: more threads a process only make them wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
