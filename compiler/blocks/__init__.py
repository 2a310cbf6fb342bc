"""Block programs: from blocks of pointers to strided accesses and structured operations, and on to commands."""
