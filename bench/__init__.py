"""Everything that makes a figure of README or results/: benchmarks, the published evaluation, fits of constants."""
