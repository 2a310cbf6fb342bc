"""Random co-simulation: the same command streams through the RTL and through the functional model.

`accelerators` draws configurations, `generate`, `macros` and `wide` draw legal streams, `run` plays them in the native
simulator (sim/cpp/cosim.h) and `minimise` shortens what failed.
"""
