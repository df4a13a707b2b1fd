"""Real models with real loading code, run with `max_backend`. See README.md."""
