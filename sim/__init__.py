"""Programs to measurements: functional model, Verilated RTL, host core, counters, waveforms."""
