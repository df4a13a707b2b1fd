"""Differential fuzzing: random programs of PyTorch calls, compiled, against eager PyTorch."""
