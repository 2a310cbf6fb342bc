"""Problems to programs: so far the mapping, shared by search and (later) code generation."""
