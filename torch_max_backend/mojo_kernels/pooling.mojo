# kernels: pooling
