"""The files that `baco init` writes."""
