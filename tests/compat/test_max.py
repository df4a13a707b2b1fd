"""Private APIs of MAX: each one exists and does what compat/max.py needs."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from max import driver, engine
from max.driver import Buffer
from max.dtype import DType
from max.graph import BufferType, DeviceRef, Graph, Module, TensorType, ops

from tests.testing.private_names import attributes_of, check_import, imported_names

# The package is imported inside the tests. If MAX moved a name, importing it fails at that name;
# `python -m pytest --noconftest tests/compat` then names all that moved.
COMPAT = Path(__file__).parents[2] / "torch_max_backend" / "compat" / "max.py"
FOUR = TensorType(DType.float32, (4,), DeviceRef.CPU())


@pytest.mark.parametrize(("module", "name"), imported_names(COMPAT, {"max"}))
def test_imported_name_exists(module: str, name: str) -> None:
    check_import(COMPAT, module, name)


@pytest.fixture
def compat() -> ModuleType:
    return importlib.import_module("torch_max_backend.compat.max")


def test_every_name_is_exercised(compat: ModuleType) -> None:
    assert set(compat.__all__) - attributes_of("compat", Path(__file__)) == set()


def test_mlir_context_in_another_thread(compat: ModuleType) -> None:
    built: list[str] = []

    @compat.in_default_mlir_context
    def build() -> None:
        with Graph("negative", input_types=[FOUR]) as graph:
            graph.output(-graph.inputs[0].tensor)
        built.append(str(graph))

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert len(built) == 1 and "mo.graph @negative" in built[0]


def test_a_permuted_value_is_known(compat: ModuleType) -> None:
    with Graph("permuted", input_types=[TensorType(DType.float32, (2, 3), DeviceRef.CPU())]) as g:
        x = g.inputs[0].tensor
        permuted = ops.permute(x, [1, 0])
        assert not compat.is_permuted(x)
        assert compat.is_permuted(permuted)
        assert not compat.is_permuted(permuted + 1)
        assert compat.stored(x) is None
        base = compat.stored(permuted)
        assert base is not None and list(base.shape) == list(x.shape)
        g.output(permuted)


def test_buffer_shares_the_memory(compat: ModuleType) -> None:
    tensor = torch.arange(4.0).requires_grad_()

    class Capsule:
        def __dlpack__(self, **_: Any) -> Any:
            return torch.utils.dlpack.to_dlpack(tensor)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    buffer = compat.buffer_from_dlpack(Capsule())
    assert isinstance(buffer, Buffer)
    assert buffer.dtype == DType.float32 and tuple(buffer.shape) == (4,)
    with torch.no_grad():
        tensor[2] = 7
    assert buffer.to_numpy().tolist() == [0, 1, 7, 3]


def test_chains_are_joined(compat: ModuleType) -> None:
    """Two stores that each wait for the same chain, and one chain that waits for both."""
    device = DeviceRef.CPU()
    written = BufferType(DType.float32, (4,), device)
    with Graph("stores", input_types=[written, written]) as graph:
        before = graph.device_chains[device]
        after = []
        for value in graph.inputs:
            graph.device_chains[device] = before
            ops.buffer_store(value.buffer, ops.constant([1.0] * 4, DType.float32, device))
            after.append(graph.device_chains[device])
        graph.device_chains[device] = compat.join_chains(after)
        graph.output()
    (joined,) = [line for line in str(graph).splitlines() if "mo.chain.create" in line][-1:]
    names = [line.split("=")[0].strip() for line in str(graph).splitlines() if ".store" in line]
    assert len(names) == 2 and all(name in joined for name in names), str(graph)


def test_graphs_of_several_modules_become_one(compat: ModuleType) -> None:
    """In their order, with constants as they were: NaN and the sign of zero too."""
    texts = []
    for name, value in (("first", float("nan")), ("second", -0.0), ("third", 1 / 3)):
        module = Module()
        with Graph(name, input_types=[FOUR], module=module) as graph:
            constant = ops.constant([value] * 4, DType.float32, DeviceRef.CPU())
            graph.output(graph.inputs[0].tensor + constant)
        texts.append(compat.bytecode_of(module))
    merged = compat.module_of(texts)
    assert merged.top_level_graph_names() == ["first", "second", "third"]
    assert all(compat.bytecode_of(compat.module_of([text])) == text for text in texts)


def test_a_compile_is_awaited_and_run(compat: ModuleType) -> None:
    """A compile can be asked whether it is done, and its model runs on buffers alone."""
    session = engine.InferenceSession(devices=[driver.CPU()])
    with Graph("negative", input_types=[FOUR]) as graph:
        graph.output(-graph.inputs[0].tensor)
    compiled = session.compile_async(graph)
    handle = compat.compile_handle(compiled)
    assert handle is not None
    while not handle.done():
        time.sleep(0.01)
    assert handle.exception() is None
    (model,) = session.init_all(compiled).values()
    execute = compat.executor(model)
    (result,) = execute([Buffer.from_numpy(torch.arange(4.0).numpy())])
    assert isinstance(result, Buffer) and result.to_numpy().tolist() == [0, -1, -2, -3]


def test_the_linker_and_the_libraries_are_found(compat: ModuleType) -> None:
    root = compat.modular_root()
    assert (root / "bin" / "lld").is_file()
    assert (root / "lib" / "libKGENCompilerRTShared.so").is_file()


def test_a_profiler_is_asked_for_its_table(compat: ModuleType, tmp_path: Path) -> None:
    """In a process of its own: MAX tries it once. There is no such library here, and it says so."""
    missing = str(tmp_path / "missing.so")
    code = f"import runpy; c = runpy.run_path({str(COMPAT)!r}); print(c['load_profiler_plugin']())"
    environment = {**os.environ, "MODULAR_PROFILER_PLUGIN": missing}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert ran.stdout.decode().strip() == "False" and missing in ran.stderr.decode()
    assert compat.load_profiler_plugin is not None


def test_what_is_computed_of_a_broadcast_is_copied_before_it_is_broadcast(
    compat: ModuleType,
) -> None:
    """With sizes that are not known; `tests/fuzz/corpus/sum_of_broadcasts.py` runs such a graph."""

    def copies(*sizes: Any) -> int:
        b, s, t = sizes
        device = DeviceRef.CPU()
        types = [TensorType(DType.float32, shape, device) for shape in ([s, t], [t], [b, s, t])]
        with compat.BroadcastOnceGraph("broadcasts", input_types=types) as graph:
            x, y, z = (value.tensor for value in graph.inputs)
            graph.output((x + y) * z, x * z, ops.broadcast_to(ops.sin(x + y), z.shape))
        return str(graph).count('"copy"')

    assert copies("b", "s", "t") == 2
    assert copies("b", 3, 5) == 0
