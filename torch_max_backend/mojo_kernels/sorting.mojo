# kernels: sorting
