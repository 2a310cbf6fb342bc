"""Programs found by search (Ansor): sketches derived by rules, random annotation, evolution, learned cost, many tasks under
one budget. A program is a tile tree (`baco.compiler.mapping.tree`)."""
