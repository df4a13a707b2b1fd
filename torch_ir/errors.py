"""Every error torch_ir raises on purpose. Catch `TorchIRError` for all of them."""

from __future__ import annotations

__all__ = [
    "ConversionError",
    "ExecutionError",
    "ExportError",
    "SerializationError",
    "TorchIRError",
    "WeightLoadError",
]


class TorchIRError(Exception):
    """Base class of the errors below."""


class ExportError(TorchIRError):
    """`torch.export` refused the model, or the model or its example inputs are unusable."""


class ConversionError(TorchIRError):
    """The exported graph holds something the IR has no way to say."""


class ExecutionError(TorchIRError):
    """Inputs do not fit the IR, or a node failed while it ran."""


class SerializationError(TorchIRError):
    """A file could not be written, or what was read is not a valid IR."""


class WeightLoadError(ExecutionError):
    """Weights are missing, surplus, unreadable, or of another shape or dtype than the IR's."""
