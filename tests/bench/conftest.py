"""What tests of benchmarks share with those of searches."""

from tests.explore.conftest import short_networks

__all__ = ["short_networks"]
