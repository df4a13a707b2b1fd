"""Test models of torch_ir, one module per category; `SPECS` has all of them by name."""

from tests.models import attention, multi_io, shared_weights, skip_connections
from tests.models.spec import TestModelSpec

SPECS: dict[str, TestModelSpec] = {
    spec.name: spec
    for module in (attention, multi_io, skip_connections, shared_weights)
    for spec in module.SPECS
}
CATEGORIES: list[str] = sorted({spec.category for spec in SPECS.values()})
