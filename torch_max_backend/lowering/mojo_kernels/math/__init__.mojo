"""Mathematics for the kernels, with PyTorch's answers at NaN, inf and beyond.

Float32 is portable SIMD arithmetic, right to some units in the last place. Float64 calls the C library,
which exists on the CPU only: there the standard library's exp has 11 digits. On a GPU the formulas of
float32 or the standard library's serve float64, to about 1e-7.

Functions of a single Float64 are series, asymptotic series or integrals where these converge to the last
digits, so that there are no tables of fitted coefficients to trust.
"""
