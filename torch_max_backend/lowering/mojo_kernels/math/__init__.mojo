"""Mathematical functions for the kernels, with PyTorch's results for NaN, inf and overflow.

Float32 is portable SIMD arithmetic, exact to some units in the last place. Float64 calls the C
library, because the exp of the standard library has 11 digits; the C library exists on the CPU
only. On a GPU, float64 uses the formulas of float32 or the standard library, exact to about 1e-7.

Functions of a single Float64 use series, asymptotic series or integrals where these converge to the
last digits, so that no tables of fitted coefficients are needed.
"""
