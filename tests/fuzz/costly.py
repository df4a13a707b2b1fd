"""Entries of op_db whose calls become many kernels, each of which takes half a second to compile.

Programs call them less often, so that more programs can be run in the same time. These have six
nodes and more when they are traced.
"""

from __future__ import annotations

_NAMES = """
    __rmatmul__ _batch_norm_with_update _chunk_cat _native_batch_norm_legit
    _segment_reduce_lengths _segment_reduce_offsets _unsafe_masked_index
    _unsafe_masked_index_put_accumulate addr block_diag cartesian_prod chunk cross
    cumulative_trapezoid diag diag_embed diagflat diff dstack einsum fft_fft fft_fft2 fft_fftn
    fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn
    fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn gradient heaviside histogramdd
    index_fill isclose isin lerp linalg_cond linalg_cross linalg_matrix_rank
    linalg_matrix_rank_hermitian linalg_pinv_singular linalg_vander logaddexp logaddexp2 logdet
    logit logsumexp masked_logaddexp masked_logsumexp masked_median masked_std masked_var matmul
    meshgrid_list_of_tensors meshgrid_variadic_tensors mvlgamma_mvlgamma_p_1
    mvlgamma_mvlgamma_p_3 mvlgamma_mvlgamma_p_5 nanmean nanquantile narrow native_batch_norm
    nn_functional_adaptive_max_pool1d nn_functional_bilinear nn_functional_binary_cross_entropy
    nn_functional_binary_cross_entropy_with_logits nn_functional_cosine_embedding_loss
    nn_functional_cosine_similarity nn_functional_cross_entropy nn_functional_embedding
    nn_functional_feature_alpha_dropout_with_train nn_functional_fractional_max_pool2d
    nn_functional_fractional_max_pool3d nn_functional_hinge_embedding_loss
    nn_functional_huber_loss nn_functional_instance_norm nn_functional_linear_cross_entropy
    nn_functional_linear_cross_entropy_chunked nn_functional_linear_cross_entropy_chunked_none
    nn_functional_local_response_norm nn_functional_logsigmoid nn_functional_margin_ranking_loss
    nn_functional_max_pool1d nn_functional_max_unpool1d nn_functional_max_unpool1d_grad
    nn_functional_max_unpool2d nn_functional_max_unpool2d_grad nn_functional_max_unpool3d
    nn_functional_max_unpool3d_grad nn_functional_mish
    nn_functional_multi_head_attention_forward nn_functional_multi_margin_loss
    nn_functional_multilabel_margin_loss nn_functional_multilabel_soft_margin_loss
    nn_functional_nll_loss nn_functional_pad_circular nn_functional_poisson_nll_loss
    nn_functional_rms_norm nn_functional_scaled_dot_product_attention
    nn_functional_smooth_l1_loss nn_functional_softplus nn_functional_softshrink
    nn_functional_triplet_margin_loss nn_functional_triplet_margin_with_distance_loss
    nn_functional_unfold pca_lowrank polar quantile renorm signal_windows_blackman
    signal_windows_general_cosine signal_windows_general_hamming signal_windows_hamming
    signal_windows_hann signal_windows_kaiser signal_windows_nuttall sinc special_entr
    special_log_ndtr split_with_sizes_copy stft svd_lowrank tensordot trapezoid trapz unbind
    unbind_copy unravel_index unsafe_chunk
"""

COSTLY = frozenset(_NAMES.split())
