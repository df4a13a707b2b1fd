"""Every private API of PyTorch and MAX that the backend uses, one module each."""
