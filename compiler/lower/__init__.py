"""Layers to accelerator commands: one file a code style."""
