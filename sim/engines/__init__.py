"""What can run a program: one engine a file, behind the interface of `baco.sim.engines.base`."""
