"""Problems to programs: mappings, the block language, the levels of the IR and its passes, code generation."""
