"""The entries of `op_db` that MAX does not run as a whole. Every other entry must be `ok`.

Written by hand: the pages in docs/ are generated, so a test that compares with them alone would
accept whatever the last run found. Removing a name here raises the bar for good; adding one is a
decision, with a reason.
"""

from __future__ import annotations

FLOAT32 = {
    "random numbers, drawn by PyTorch by design": """
        bernoulli cauchy exponential geometric log_normal multinomial nn_functional_alpha_dropout
        nn_functional_dropout nn_functional_dropout2d nn_functional_dropout3d
        nn_functional_feature_alpha_dropout_with_train nn_functional_fractional_max_pool2d
        nn_functional_fractional_max_pool3d nn_functional_multi_head_attention_forward
        nn_functional_rrelu nn_functional_scaled_dot_product_attention normal normal_in_place
        normal_number_mean pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank
        uniform
    """,
    "dense factorizations": """
        linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_ldl_factor_ex
        linalg_ldl_solve linalg_matrix_norm linalg_matrix_rank linalg_matrix_rank_hermitian
        linalg_norm linalg_norm_subgradients_at_zero linalg_pinv linalg_pinv_hermitian
        linalg_pinv_singular linalg_svd linalg_svdvals matrix_exp norm_nuc pinverse svd
    """,
    "data-dependent shapes or numbers": """
        argwhere combinations corrcoef cov linalg_lstsq linalg_lstsq_grad_oriented masked_select
        narrow nn_functional_ctc_loss nn_functional_gaussian_nll_loss nonzero repeat_interleave
        tensor_split unique unique_consecutive
    """,
    "errors that depend on values": """
        linalg_cholesky linalg_inv linalg_ldl_factor linalg_lu_factor linalg_matrix_power
        linalg_solve linalg_tensorinv linalg_tensorsolve
    """,
    "sparse tensors": """
        sparse_mm_reduce sparse_sampled_addmm to_sparse
    """,
    "no lowering yet": """
        __getitem__ hash_tensor histogram histogramdd nn_functional_linear_cross_entropy_chunked
        nn_functional_linear_cross_entropy_chunked_none resize_as_
    """,
}
"""Names by the reason that the page gives."""

WITHOUT_TENSORS = """
    allclose broadcast_shapes equal item jiterator_2inputs_2outputs
    jiterator_4inputs_with_extra_args jiterator_binary jiterator_binary_return_by_ref
    jiterator_unary
"""
"""No sample returns a tensor on the CPU, or eager itself rejects it (jiterator needs a GPU)."""

MORE = {
    "int64": "bincount nn_functional_one_hot",  # the size of the result depends on values
    "gradients float64": "_segment_reduce_lengths _segment_reduce_offsets",
    # No rewrite on real tensors.
    "complex64": """
        __rpow__ _unsafe_masked_index _unsafe_masked_index_put_accumulate acos acosh addbmm all any
        as_strided as_strided_copy as_strided_partial_views as_strided_scatter asin asinh atan atanh
        cholesky cholesky_inverse cholesky_solve cos cosh cumprod empty_permuted empty_strided exp2
        expm1 eye fill float_power geqrf isinf istft ldexp lerp linalg_cholesky_ex linalg_det
        linalg_householder_product linalg_inv_ex linalg_lu linalg_lu_factor_ex linalg_lu_solve
        linalg_qr linalg_slogdet linalg_solve_ex linalg_solve_triangular linalg_vander linspace
        log10 log1p log2 logaddexp logcumsumexp logdet logical_and logical_not logical_or
        logical_xor lu lu_solve lu_unpack masked_cumprod masked_cumsum masked_scatter
        new_empty_strided new_full new_ones nn_functional_pad_reflect nn_functional_pad_replicate
        nn_functional_pad_replicate_negative nn_functional_rms_norm nn_functional_silu_complex
        nn_functional_tanhshrink nonzero_static ormqr pow prod put qr resize_ rsqrt sigmoid sin sinc
        sinh std std_mean std_mean_unbiased std_unbiased stft take tan tanh triangular_solve tril
        triu unfold unfold_copy var var_mean var_mean_unbiased var_unbiased
    """,
}
"""What is unsupported at other dtypes, besides what is unsupported in float32."""

SAMPLES = {"float32": 64}
"""How many samples of an entry were run at least, if it has so many; otherwise 1."""


def reasons() -> dict[str, str]:
    """The entries that are unsupported in float32, each with its reason."""
    return {name: reason for reason, names in FLOAT32.items() for name in names.split()}


def unsupported(title: str) -> set[str]:
    """The entries that may be unsupported in a table of the page."""
    return {*reasons(), *MORE.get(title, "").split()}
