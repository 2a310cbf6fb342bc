"""Random co-simulation: the same command streams through the RTL and through the functional model.

`accelerators` draws configurations, `generate` and `macros` draw legal streams, `run` plays them in the native
simulator (sim/cpp/cosim.h) and `minimise` shortens what failed.
"""
