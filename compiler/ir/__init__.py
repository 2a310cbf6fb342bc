"""The IR: its text, checks and limits, and the writer of functions of commands."""
