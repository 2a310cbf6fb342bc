"""What `baco bench rtl` measures: speed of the simulation, use of the array, and single timing facts of the RTL.

`stream` and `layers` write command streams, `probe` runs them, `execute_facts`, `load_facts` and `store_facts` are the
facts, `speed` times simulations and builds, and `rtl` puts it all together.
"""
