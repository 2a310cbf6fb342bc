"""What runs where and when on a system: tasks by unit, solvers, profiles of networks, several networks at once."""
