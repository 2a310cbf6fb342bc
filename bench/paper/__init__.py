"""The published evaluation with our own numbers (`baco bench paper`): tables, figures, and how set-ups differ."""
