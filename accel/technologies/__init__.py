"""Technologies as data: what structures, memories and clocks of accelerators are in silicon, a file each."""
