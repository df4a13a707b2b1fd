"""Kernels that MAX writes as Mojo, compiled for GPUs that are not here. Nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gpu import compile_kernels, report
from tests.gpu.compile_kernels import FILE, Kernels, compile_all, cover, failures, undefined
from tests.gpu.emit_kernels import emit_all
from tests.gpu.emitted import Emitted
from tests.gpu.kept_graphs import PLACEHOLDER, Kept
from tests.gpu.lower_rows import lower, shuffled
from tests.lowering.test_mojo_kernels import registered_kernels
from tests.lowering.test_ops import ROWS
from torch_max_backend.lowering import mojo_kernels

KERNEL = """\
# FusionInfo:
#   custom__tmb_{op}

def __{name}({arguments}) raises:
    try:
        var var___0 = layout.Coord({sizes})
        var var___1 = mogg_tensor_init[DType.{dtype}, 2, False, IO.Input, 256](arg__0)
        with Trace[TraceLevel.OP, target = StaticString("gpu")]("{op} [{sizes}]", task_id = 1):
            var var____2 = Load_{name}()
            tmb_1.{op}.execute[target = "gpu", axis = 1](var___1, SIMD[DType.{dtype}, width](2))
    except e__4:
        raise mogg_format_kernel_error("__{name}", e__4, "of {sizes}")"""
LOAD = """\
@fieldwise_init
struct Load_{name}(InputFusion):
    var var__1: Int"""
WRAPPER = """\
@export
def __{name}_async(arg__0: Pointer) abi("Mojo"):
    __{name}(arg__0)"""
ARGUMENTS = "arg__0: OpaquePointer[MutAnyOrigin], arg__1: max.gpu.host.device_context.DeviceContext"


def _mojo(*kernels: tuple[str, str, str, str]) -> str:
    """A file like MAX's, of kernels by name, function, dtype and sizes."""
    parts = ["import a\nimport b"]
    for name, op, dtype, sizes in kernels:
        how = {"name": name, "op": op, "dtype": dtype, "sizes": sizes, "arguments": ARGUMENTS}
        parts += [text.format(**how) for text in (WRAPPER, KERNEL, LOAD)]
    return "\n\n".join(parts)


def _alike(**changed: str) -> str:
    how = {"name": "x", "op": "A", "dtype": "float32", "sizes": "Idx[2], Idx[3]"} | changed
    mojo = Emitted(_mojo((how["name"], how["op"], how["dtype"], how["sizes"])))
    (kernel,) = mojo.kernels([f"__{how['name']}_async"])
    return kernel.alike


def test_kernels_are_alike_but_for_names_and_sizes() -> None:
    first = _alike()
    assert first == _alike(name="y", sizes="Idx[4], Idx[5], Idx[1]")
    assert len({first, _alike(op="B"), _alike(dtype="float64")}) == 3


def test_what_a_kernel_calls_has_its_dtypes_and_no_axis() -> None:
    (kernel,) = Emitted(_mojo(("x", "A", "float16", ""))).kernels(["__x_async"])
    assert kernel.calls == {'tmb_1.A.execute[target = "gpu", axis]( DType.float16'}


def _kept(folder: Path, *graphs: Sequence[tuple[str, str, str, str]]) -> Kept:
    """A folder whose graphs have these kernels."""
    kept = Kept(folder)
    for number, kernels in enumerate(graphs):
        key = kept.keep(f"{PLACEHOLDER} {number}".encode())
        kept.note(f"table-{number}-op{number}-float32", "lowered", key=key)
        stored = {"graphs": {key: [f"__{k[0]}_async" for k in kernels]}, "mojo": _mojo(*kernels)}
        (kept.emitted / f"{key}.json").write_text(json.dumps(stored))
    kept.kernels.write_text("kernels.mojoc")
    return kept


A, B, C = (("x", op, "float32", "Idx[2]") for op in "ABC")
LIKE_A = ("y", "A", "float32", "Idx[7]")


def test_a_file_launches_each_kernel_on_a_line_of_its_own(tmp_path: Path) -> None:
    kernels = Kernels(_kept(tmp_path, [A, ("z", *B[1:])], [LIKE_A]))
    assert len(kernels.alike) == 2
    text, lines = kernels.source(list(kernels.alike))
    assert text.startswith("import a\nimport b\n") and "_async" not in text
    written = text.splitlines()
    assert len(written) == len(lines)
    for number, alike in enumerate(kernels.alike):
        own = [text for text, of in zip(written, lines, strict=True) if of == alike]
        assert own[-1].startswith(f"    k{number}_") and own[-1].endswith("(pointer, ctx)")
        (operation,) = (line for line in own if ".execute[" in line)
        place = written.index(operation) + 1
        said = "builtin_kernels/kernels.mojo:9:9: error: no\n"
        said += "".join(f"builtin_kernels/kernels.mojo:{n}:1: note: x\n" for n in range(99))
        said += f"/tmp/{FILE}:{place}:1: note: here\n"
        assert list(failures(f"/tmp/{FILE}:1:1: error: what?\n{said}", lines)) == [alike]
        assert not failures(said.replace(": error: ", ": warning: "), lines)


def test_few_kernels_hold_all_calls() -> None:
    sets = {"a": {"1"}, "b": {"1", "2", "3"}, "c": {"3", "4"}, "d": {"2"}, "e": set[str]()}
    assert cover(sets) == ["b", "c"]
    assert cover({}) == []


def test_a_kernel_that_fails_fails_its_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named or not; kernels that are alike are compiled once, and a run goes on where it was."""
    kept = _kept(tmp_path, [A], [LIKE_A, ("z", *B[1:])], [C])
    tried = []

    def mojo(arch: str, source: Path, packages: Path) -> tuple[str, list[Path]]:
        text = source.read_text()
        tried.append([op for op in "ABC" if f"tmb_1.{op}." in text])
        return ("error: something" if "tmb_1.B." in text else ""), []

    monkeypatch.setattr(compile_kernels, "_mojo", mojo)
    compile_all("sm_90", kept)
    assert tried[0] == ["A", "B", "C"] and tried[-1] != tried[0] and ["B"] in tried
    known = kept.kernels_compiled("sm_90")
    assert sorted(entry["outcome"] for entry in known.values()) == ["compiled"] * 2 + ["failed"]
    rows = list(report.outcomes(kept, Kernels(kept), "sm_90").values())
    assert rows == [report.COMPILED, report.FAILED, report.COMPILED]
    page = report.page(kept, Kernels(kept))
    assert "| `sm_90`: compiled | 2 |" in page and "| error: something |" in page
    before = len(tried)
    compile_all("sm_90", kept)
    assert len(tried) == before
    kept.forget_failed_kernels("sm_90")
    compile_all("sm_90", kept)
    assert tried[before:] == [["B"]]


def test_functions_that_no_file_has() -> None:
    nvidia = ".visible .entry k(\n)\n.extern .func (.param .b32 r) vprintf\n"
    assert undefined(nvidia) == set()
    assert undefined(nvidia + ".extern .func (.param .b64 r) sin\n") == {"sin"}
    amd = "k:\n\ts_add_u32 s4, s4, sin@rel32@lo+4\n\ts_add_u32 s4, s4, f@gotpcrel32@lo+4\nf:\n"
    assert undefined(amd) == {"sin"}


IN_NO_GRAPH = {"tmb_airy_ai", "tmb_bessel_j0", "tmb_bessel_j1", "tmb_bessel_y0", "tmb_bessel_y1"}
IN_NO_GRAPH |= {"tmb_frexp_exponent", "tmb_frexp_mantissa"}  # these call the C library
IN_NO_GRAPH |= {"tmb_silu_backward"}  # no row calls it; it is among the pointwise kernels


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_each_kernel_of_ours_compiles_or_refuses(tmp_path: Path) -> None:
    """Of all rows, those that have a kernel first; minutes."""
    kept = Kept(tmp_path)
    lower(kept, shuffled())
    items = kept.items()
    chosen: dict[str, str] = {}
    for item, entry in items.items():
        if "key" in entry:
            for name in re.findall(rb"tmb_\w+", kept.path(entry["key"]).read_bytes()):
                chosen.setdefault(name.decode(), item)
    few = Kept(tmp_path / "few")
    few.kernels.write_text(kept.kernels.read_text())
    for item in sorted(set(chosen.values())):
        key = items[item]["key"]
        few.path(key).write_bytes(kept.path(key).read_bytes())
        few.note(item, "lowered", key=key)
    emit_all(few)
    compile_all("sm_90", few)
    assert {e["outcome"] for e in few.kernels_compiled("sm_90").values()} == {"compiled"}
    done = report.own_kernels(few, Kernels(few), "sm_90")
    assert registered_kernels() - done == mojo_kernels.HOST_ONLY | IN_NO_GRAPH


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_kernels_of_rows_compile(arch: str, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    wanted = {"softmax-0-_softmax.default-float32", "softmax-0-_softmax.default-float64"}
    lower(kept, [row for row in ROWS if row.id in wanted])
    emit_all(kept)
    assert len(Kernels(kept).alike) == 2
    compile_all(arch, kept)
    assert set(report.outcomes(kept, Kernels(kept), arch).values()) == {report.COMPILED}
