"""PyTorch's own test database (`op_db`), run on MAX: `python -m tests.opinfo`."""
