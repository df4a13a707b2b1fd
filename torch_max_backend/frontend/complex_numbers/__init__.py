"""Complex tensors, which MAX does not have, as pairs of real tensors."""

from torch_max_backend.frontend.complex_numbers.rewrite import without_complex_numbers

__all__ = ["without_complex_numbers"]
