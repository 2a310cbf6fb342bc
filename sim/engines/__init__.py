"""What can run a program: one engine a file, behind the interface of `sim.engines.base`."""
