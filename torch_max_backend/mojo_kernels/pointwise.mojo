# kernels: pointwise
