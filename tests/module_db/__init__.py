"""PyTorch's own database of modules (`module_db`), trained on MAX: `python -m tests.module_db`."""
