"""Constants of several functions that the standard library does not have."""

comptime EULER = 0.57721566490153286061
comptime LN2 = 0.69314718055994530942
comptime LOG10E = 0.43429448190325182765
comptime SQRT_HALF = 0.70710678118654752440
comptime SQRT_TWO_BY_PI = 0.79788456080286535588
comptime TWO_BY_SQRT_PI = 1.12837916709551257390

comptime TINY = 1e-17
"""A term so small that adding it to 1 gives 1."""
