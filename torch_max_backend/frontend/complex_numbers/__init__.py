"""Complex numbers, which MAX does not have: each complex tensor becomes two real ones."""

from torch_max_backend.frontend.complex_numbers.rewrite import without_complex_numbers

__all__ = ["without_complex_numbers"]
