"""The hardware: configuration, energy and area."""
