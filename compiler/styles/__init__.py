"""Layers to accelerator commands: one file or folder a code style, listed in `baco.compiler.styles.registry`."""
