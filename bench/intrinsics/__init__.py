"""Operators that no rule of the compiler knows, through matchings to the array's instruction."""
