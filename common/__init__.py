"""Ground floor: error types with locations, safe YAML with line numbers, provenance."""
