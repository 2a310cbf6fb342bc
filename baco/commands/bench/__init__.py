"""Commands of `baco bench`, a file a subject; `group.py` puts them together."""
