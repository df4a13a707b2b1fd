"""Which PyTorch ops an IR may run without being asked: the ops that an exported model contains.

The rules read an op's schema, because a list of names would be out of date with each release. An op
of `aten` or `prims` may run if all of these hold:

1. It writes into no argument. Ops whose schemas hide a write run on copies (`hidden_write_flag`).
2. It takes and returns dense tensors and plain values. Ops on sparse, quantized and nested tensors
   and on tensors of one library (cuDNN, MKL) trust their arguments; wrong ones read foreign memory.
3. It checks its arguments: no `unsafe` in its name or arguments, no gradient op (those trust what
   the forward op saved) and no internal op (`_name`) but those listed here.
4. It returns no uninitialized memory. The ops that allocate without filling get zeros instead.
5. It is not in `_UNCHECKED`: public ops that read out of bounds for wrong arguments all the same.

Ops of other namespaces come from libraries that this process imported; allowing the namespace
allows them all, except those that write into their arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from torch_ir.compat import OpOverload, schema_of

__all__ = [
    "hidden_write_flag",
    "is_listed",
    "refusal",
    "reinterprets_bytes",
    "returns_uninitialized",
]

_OTHER_MEMORY = re.compile(
    r"backward|unsafe|sparse|cs[rc]|bs[rc]|coo|mkl|nested|jagged|quant|qparams|packed|int4|int8"
    r"|cudnn|miopen|cuda|mps|nnpack|fbgemm|foreach|fused|triton|inductor|_polynomial_"
    r"|_test_|_jvp|_helper"
)
"""Parts of names: gradient ops, ops on tensors that are not dense or belong to one library, and the
polynomials, which take time in proportion to a number in their arguments."""

_UNCHECKED = frozenset(
    {
        "ccol_indices", "ccol_indices_copy", "coalesce", "col_indices", "col_indices_copy",
        "conv_depthwise3d", "convolution_overrideable", "crow_indices", "crow_indices_copy", "data",
        "fft_c2c", "fft_c2r", "fft_r2c", "flatten_dense_tensors", "hspmm", "indices",
        "indices_copy", "int_repr", "linalg_ldl_solve",
        "linalg_lu_solve", "lu_solve", "pin_memory", "resize", "resize_as", "row_indices",
        "row_indices_copy", "set", "slice_inverse", "smm", "sspaddmm", "to_dense",
        "to_padded_tensor", "unflatten_dense_tensors", "values", "values_copy",
    }
)  # fmt: skip
"""Public ops for tensors that are not dense, that return uninitialized memory, or that trust the
content of their arguments (the pivots of `linalg_lu_solve` are row numbers)."""

_INTERNAL = frozenset(
    {
        "__and__", "__lshift__", "__or__", "__rshift__", "__xor__", "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d", "_add_relu", "_addmm_activation", "_aminmax", "_assert_async",
        "_assert_scalar", "_assert_tensor_metadata", "_cast_Byte",
        "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int", "_cast_Long",
        "_cast_Short", "_cdist_forward", "_conj", "_conj_copy", "_conj_physical", "_convolution",
        "_convolution_mode", "_dim_arange", "_euclidean_dist", "_fft_c2c", "_fft_c2r", "_fft_r2c",
        "_functional_assert_async", "_functional_assert_scalar", "_functional_sym_constrain_range",
        "_functional_sym_constrain_range_for_size", "_int_mm", "_is_all_true", "_is_any_true",
        "_linalg_det", "_linalg_eigh", "_linalg_eigvals", "_linalg_slogdet", "_linalg_solve_ex",
        "_linalg_svd", "_local_scalar_dense", "_log_softmax", "_logcumsumexp",
        "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training", "_neg_view", "_neg_view_copy", "_pad_circular",
        "_pad_enum", "_pdist_forward", "_prelu_kernel",
        "_reshape_copy", "_safe_softmax", "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention_for_cpu", "_shape_as_tensor", "_softmax",
        "_to_copy", "_trilinear", "_unique", "_unique2", "_unsafe_index", "_unsafe_index_put",
        "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "_unsafe_view",
        "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_lanczos2d_aa",
        "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
        "_weight_norm", "_weight_norm_interface",
    }
)  # fmt: skip
"""Internal ops that exported graphs contain. `_unsafe_view` and `_unsafe_index` check their
arguments; their names refer to gradients and to compilers."""

_NUMBERS = frozenset(
    {
        "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_local_scalar_dense",
        "allclose", "dim", "equal", "is_complex", "is_floating_point", "is_nonzero", "is_same_size",
        "item", "numel", "size", "storage_offset", "stride", "sym_constrain_range",
        "sym_constrain_range_for_size", "sym_is_contiguous", "sym_numel", "sym_size",
        "sym_storage_offset", "sym_stride",
    }
)  # fmt: skip
"""The ops of exported graphs that return a number or nothing."""

_RETURNED = frozenset({"Tensor", "Optional[Tensor]", "List[Tensor]"})
_TAKEN = re.compile(
    r"(?:Optional\[|List\[)*"
    r"(?:Tensor|int|float|bool|number|str|complex|Device|SymInt|SymFloat|SymBool|Generator)\]*"
)

_UNINITIALIZED = frozenset(
    {
        "aten::empty", "aten::empty_like", "aten::empty_permuted", "aten::empty_strided",
        "aten::new_empty", "aten::new_empty_strided", "prims::empty", "prims::empty_permuted",
        "prims::empty_strided",
    }
)  # fmt: skip

_ALWAYS = "always"
_HIDDEN_WRITES = {
    "aten::batch_norm": "training",
    "aten::batch_norm_gather_stats": _ALWAYS,
    "aten::batch_norm_gather_stats_with_counts": _ALWAYS,
    "aten::batch_norm_update_stats": _ALWAYS,
    "aten::instance_norm": "use_input_stats",
    "aten::native_batch_norm": "training",
}


@functools.cache
def refusal(overload: OpOverload) -> str | None:
    """Why an IR may not call this op unless it is allowed by name; None if it may.

    >>> import torch
    >>> refusal(torch.ops.aten.relu.default) is None
    True
    >>> refusal(torch.ops.aten.lu_solve.default)
    'it does not check its arguments'
    """
    schema = schema_of(overload)
    namespace, _, name = schema.name.partition("::")
    if namespace not in ("aten", "prims"):
        return None
    if name not in _INTERNAL and (found := _OTHER_MEMORY.search(name)):
        return f"its name contains {found[0]!r}: ops of this kind do not check their arguments"
    if name.startswith("_") and name not in _INTERNAL:
        return "it is an internal op that exported models do not contain"
    if name in _UNCHECKED:
        return "it does not check its arguments"
    for argument in schema.arguments:
        if "unsafe" in argument.name:
            return f"its argument {argument.name!r} turns off checks"
        if not _TAKEN.fullmatch(str(argument.type)):
            return f"its argument {argument.name!r} is a {argument.type}"
    dense = schema.returns and all(str(result.type) in _RETURNED for result in schema.returns)
    if not dense and name not in _NUMBERS:
        return "it does not return tensors"
    return None


def is_listed(op_type: str, allowed: Collection[str]) -> bool:
    """Whether a list of ops has this one, with its overload or without.

    >>> is_listed("aten.add.Tensor", ["aten.add"]), is_listed("aten.add.Tensor", ["aten.add.out"])
    (True, False)
    """
    return op_type in allowed or op_type.rpartition(".")[0] in allowed


def returns_uninitialized(overload: OpOverload) -> bool:
    """Whether the result is memory that holds whatever was there before."""
    return schema_of(overload).name in _UNINITIALIZED


def hidden_write_flag(overload: OpOverload) -> str | None:
    """The argument that makes the op write into its running statistics without the schema saying
    so, "always" if it needs none; None if the op does not."""
    return _HIDDEN_WRITES.get(schema_of(overload).name)


def reinterprets_bytes(overload: OpOverload) -> bool:
    """Whether the op can make a bool from any byte; kernels index memory by such a bool."""
    schema = schema_of(overload)
    return schema.name == "prims::view_of_dtype" or (
        schema.name in ("aten::view", "aten::view_copy") and schema.overload_name == "dtype"
    )
