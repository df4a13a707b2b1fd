"""From ATen calls to MAX graphs: the op table, decompositions, lowerings, kernels."""
