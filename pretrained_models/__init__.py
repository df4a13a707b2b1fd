"""Scripts that load published models and run them with `max_backend`. See README.md."""
