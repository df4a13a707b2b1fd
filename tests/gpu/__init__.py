"""What can be proved of GPUs on a machine without one: docs/gpu.md."""
