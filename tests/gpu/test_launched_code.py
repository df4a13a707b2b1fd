"""The code that a GPU would run for `each`, read as the assembly that Mojo's compiler emits.

`launched.mojo` launches two bodies. One captures copies (`{var}`), as all bodies of our kernels do.
The other captures a reference: its code follows an address of the host's stack. That is what the
checks are to find.

`pointwise.mojo` launches our pointwise kernels. A function that no GPU has shows here: the compiler
does not select it, or the code calls what is not there.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from torch_max_backend.lowering import mojo_kernels

SOURCE = Path(__file__).with_name("launched.mojo")
POINTWISE = Path(__file__).with_name("pointwise.mojo")
KINDS = {"sm_80": "ptx", "sm_90": "ptx", "gfx942": "amdgcn"}

ON_HOSTS = {"AiryAi", "BesselJ0", "BesselJ1", "BesselY0", "BesselY1", "FrexpMantissa"}
"""Kernels that call the C library."""
INTEGERS_ALONE = r"Bitwise|.*Position"
MODULES = ("pointwise", "pointwise_binary", "special")


def _emitted(arch: str, folder: Path, source: Path = SOURCE) -> list[str]:
    """The assembly of each launched function."""
    from mojo.run import subprocess_run_mojo

    command = ["build", "--emit", "asm", "--target-accelerator", arch]
    command += ["-I", str(mojo_kernels.SOURCES.parent), str(source), "-o", str(folder / "host.s")]
    try:
        ended = subprocess_run_mojo(command, capture_output=True, check=True)
    except subprocess.CalledProcessError as error:
        raise AssertionError(error.stderr.decode(errors="replace")) from error
    assert b"error:" not in ended.stderr  # for AMD, a missing function does not end the compiler
    files = sorted(folder.glob(f"host_*.{KINDS[arch]}"))
    assert all("launch__Launched" in file.name for file in files)
    return [file.read_text() for file in files]


def _of_copy(codes: list[str], on_floats: str) -> tuple[str, str]:
    """The function that captures a copy, which works on floats, and the other one."""
    (copy,) = [code for code in codes if on_floats in code]
    (reference,) = [code for code in codes if on_floats not in code]
    return copy, reference


def _instructions(ptx: str) -> list[str]:
    body = ptx[ptx.index("\n{") :]
    lines = [line.strip() for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith((".reg", "{", "}"))]


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return _of_copy(_emitted("sm_90", tmp_path_factory.mktemp("sm_90")), "fma.rn.f32")


def test_a_body_is_an_entry_without_calls(nvidia: tuple[str, str]) -> None:
    code, _ = nvidia
    assert code.count(".visible .entry ") == 1 and ".target sm_90" in code
    assert not re.search(r"\bcall\b|\.extern", code)


def test_a_thread_beyond_the_count_does_nothing(nvidia: tuple[str, str]) -> None:
    """The global index is compared with `count` before anything is read or written."""
    lines = _instructions(nvidia[0])
    text = "\n".join(lines)
    block = re.search(r"mul\.wide\.u32 (\S+), %r\d+, 128;".replace(" ", r"\s+"), text)
    count = re.search(r"ld\.param\S*\s+(%rd\d+), \[\w+_param_0\+8\];", text)
    assert block and count and "%ctaid.x" in text and "%tid.x" in text
    index = re.search(rf"add\.s64\s+(%rd\d+), {block[1]}, %rd\d+;", text)
    assert index
    guard = re.search(rf"setp\.ge\.s64\s+(%p\d+), {index[1]}, {count[1]};", text)
    assert guard
    branch = re.search(rf"@{guard[1]} bra\s+(\S+);", text)
    assert branch and text.endswith(f"{branch[1]}:\nret;")
    touched = [m.start() for m in re.finditer(r"(?:ld|st)\.(?!param)", text)]
    assert touched and min(touched) > branch.start()


def _loads(ptx: str) -> list[str]:
    return [line for line in _instructions(ptx) if line.startswith("ld.") and "param" not in line]


def test_what_a_body_captures_is_a_parameter(nvidia: tuple[str, str]) -> None:
    """A copy is read from the parameters; a reference would be an address of the host."""
    copy, reference = nvidia
    assert [load.split()[0] for load in _loads(copy)] == ["ld.global.b32"]
    assert next(load.split()[0] for load in _loads(reference)) == "ld.global.b64"


@pytest.mark.slow
def test_code_for_amd(tmp_path: Path) -> None:
    code, reference = _of_copy(_emitted("gfx942", tmp_path), "v_fma_f32")
    assert code.count(".amdhsa_kernel ") == 1 and "gfx942" in code
    assert "s_swappc" not in code and "s_setpc" not in code
    # The index is compared with `count`; lanes beyond it are switched off, and skip the rest.
    steps = (r"v_cmp_gt_i64\S* vcc, .*", "s_and_saveexec_b64 .*", "s_cbranch_execz")
    guard = re.search(r"\n\s*".join(steps), code)
    memory = [m.start() for m in re.finditer(r"(?:global|flat)_(?:load|store)", code)]
    assert guard and memory and min(memory) > guard.end()
    addresses = re.findall(r"s_load_dwordx2", code)
    assert len(addresses) < len(re.findall(r"s_load_dwordx2", reference))


def _launches() -> Iterator[str]:
    """A line of Mojo for each pointwise kernel and dtype, but those of two results' dtypes."""
    for module in MODULES:
        text = (mojo_kernels.SOURCES / f"{module}.mojo").read_text()
        kernels = re.findall(r"^struct (\w+)\((\w+)\):", text, re.M)
        assert len(kernels) == text.count("@extensibility.register(")
        for kernel, kind in kernels:
            dtypes = [] if re.match(INTEGERS_ALONE, kernel) else ["float32", "float64"]
            dtypes += ["int32", "int64"] * (kind in ("Binary", "ElementwiseUnaryOp"))
            if kernel == "Tan":
                dtypes.remove("float64")  # as `on_device.NOT_ON_GPU_IN_FLOAT64` says
            if kernel not in ON_HOSTS and "Mixed" not in kind:
                yield from (f"    launch[{module}.{kernel}, DType.{d}](ctx)\n" for d in dtypes)


@pytest.mark.slow
@pytest.mark.parametrize("arch", KINDS)
def test_pointwise_kernels_call_only_what_is_there(arch: str, tmp_path: Path) -> None:
    launches = list(_launches())
    source = tmp_path / "all.mojo"
    source.write_text(POINTWISE.read_text() + "".join(launches))
    codes = _emitted(arch, tmp_path, source)
    assert len(codes) == len(launches) > 150
    for code in codes:
        if KINDS[arch] == "ptx":
            called = re.findall(r"\bcall(?:\.uni)?\s+(?:\(\w+\), )?(\w+)", code)
            defined = re.findall(r"^\.func .*?(\w+)\($", code, re.M)
            assert ".extern" not in code and len(called) == len(re.findall(r"\bcall\b", code))
        else:
            called = re.findall(r"(\w+)@(?:rel32|gotpcrel32)@lo", code)
            defined = re.findall(r"^(\w+):", code, re.M)
        assert set(called) <= set(defined)


def test_every_body_of_our_kernels_captures_copies() -> None:
    """`each` is the only way to a GPU: its bodies are closures with the list {var}, or structs."""
    bodies = 0
    for path in mojo_kernels.SOURCES.rglob("*.mojo"):
        text = path.read_text()
        if path.name == "launch.mojo":
            continue
        launches = list(
            re.finditer(r"\beach\[target\]\((.*), (\w+)(\[.*\])?(\(.*\))?, ctx\)", text)
        )
        assert len(launches) == len(re.findall(r"\beach\[target\]\(", text)), path.name
        for launch in launches:
            bodies += 1
            if launch[4]:  # a struct is made here, and holds what it is given
                assert re.search(rf"struct {launch[2]}\b", text), f"{path.name}: {launch[2]}"
                continue
            definition = rf"def {launch[2]}\([^)]*\) (\{{[^}}]*\}})"
            closures = re.findall(definition, text[: launch.start()])
            assert closures and closures[-1] == "{var}", f"{path.name}: {launch[2]}"
    assert bodies > 30
