"""`explain()`: what a compile would do, without MAX's compiler."""
