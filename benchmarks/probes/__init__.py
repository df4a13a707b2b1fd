"""Small experiments with MAX's compiler, whose results are in docs/compile_time.md."""
