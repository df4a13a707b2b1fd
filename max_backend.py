"""The backend's name as a module, so that PyTorch accepts `TORCH_LOGS=max_backend`.

PyTorch reads the variable while it is imported, before a package can register a name of its own,
and takes the names of modules that Python finds. It does not import this one. What is logged under
the name comes from torch_max_backend/observe/profiling.py.
"""
