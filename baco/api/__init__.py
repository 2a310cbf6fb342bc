"""The Python interface, one topic a file; `import baco` gives its names (see `baco.__all__`), loaded when first used."""
