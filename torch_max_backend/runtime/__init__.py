"""The call of a compiled graph: only the work that cannot be done at compile time."""
