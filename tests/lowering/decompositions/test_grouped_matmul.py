"""Products of groups of rows: PyTorch's op becomes one of ours, with or without a transpose."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.lowering.decompositions import grouped_matmul
from torch_max_backend.program.own_ops import grouped_mm

aten = torch.ops.aten
OFFSETS = torch.tensor([2, 2, 5], dtype=torch.int32)


def by_hand(x: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    result = torch.zeros(x.shape[0], matrices.shape[2])
    result[0:2] = x[0:2] @ matrices[0]
    result[2:5] = x[2:5] @ matrices[2]  # no row for matrix 1, and none for row 5
    return result


@pytest.mark.parametrize("transposed", [False, True])
def test_one_op_that_takes_matrices_as_they_are(
    transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    stored = torch.randn(3, 7, 4) if transposed else torch.randn(3, 4, 7)
    matrices = stored.mT if transposed else stored
    torch.testing.assert_close(grouped_mm(x, stored, OFFSETS, transposed), by_hand(x, matrices))
    given = []

    def spy(*args: object) -> torch.Tensor:
        given[:] = args
        return grouped_mm(*args)

    monkeypatch.setattr(grouped_matmul, "grouped_mm", spy)
    torch.testing.assert_close(grouped_matmul.decompose(x, matrices, OFFSETS), by_hand(x, matrices))
    assert given[1].is_contiguous() and given[1].data_ptr() == stored.data_ptr()
    assert given[3] is transposed


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.ones(6, 4), torch.ones(3, 4, 7)),
        (torch.ones(3, 6, 4), torch.ones(3, 4, 7), OFFSETS),
        (torch.ones(6, 4), torch.ones(3, 4, 7), OFFSETS, torch.ones(7)),
        (torch.ones(6, 4), torch.ones(3, 4, 7), OFFSETS, None, torch.float64),
    ],
    ids=["no offsets", "two batches", "bias", "another dtype"],
)
def test_other_forms_stay_with_pytorch(arguments: tuple[object, ...]) -> None:
    assert grouped_matmul.decompose(*arguments) is NotImplemented  # type: ignore[arg-type]


def test_transformers_own_op_is_known_once_it_exists() -> None:
    import transformers.integrations.moe

    assert transformers.integrations.moe is not None
    found = grouped_matmul.decompositions()
    assert aten._grouped_mm.default in found
    assert torch.ops.transformers.grouped_mm_fallback.default in found
