"""Every error that torch_ir raises on purpose; `TorchIRError` is the base class of all."""

from __future__ import annotations

from torch_ir.terminal import printable

__all__ = [
    "ConversionError",
    "ExecutionError",
    "ExportError",
    "SerializationError",
    "TorchIRError",
    "WeightLoadError",
]


class TorchIRError(Exception):
    """Base class of the errors below. Its text has no control characters, which names may have."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ExportError(TorchIRError):
    """`torch.export` failed, or the model or its example inputs cannot be used."""


class ConversionError(TorchIRError):
    """The exported graph contains something that an IR cannot represent."""


class ExecutionError(TorchIRError):
    """The inputs do not match the IR, or a node failed while it ran."""


class SerializationError(TorchIRError):
    """An IR could not be written, or a file is not a valid IR."""


class WeightLoadError(ExecutionError):
    """Weights are missing, unexpected or unreadable, or differ from the IR in shape or dtype."""
