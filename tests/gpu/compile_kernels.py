"""Compiles the kernels of lowered graphs for a GPU that this machine does not have.

    python -m tests.gpu.emit_kernels FOLDER             first: MAX writes the kernels as Mojo
    python -m tests.gpu.compile_kernels sm_90 FOLDER
    python -m tests.gpu.compile_kernels sm_90 FOLDER 300     that many seconds of processor time
    python -m tests.gpu.compile_kernels sm_90 FOLDER failed  those that failed, once more

What MAX compiles for a graph is Mojo that it has written. Here `mojo build` translates it to the
GPU's assembly: without the wrappers for MAX's runtime, with less optimization, each kernel once,
and of kernels that are alike (`emitted.Kernel.alike`) one. The first 475 took 0.7 s each,
where MAX takes 2.8 s for a graph. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import re
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.gpu.compile_graphs import cause
from tests.gpu.emitted import Kernel, read
from tests.gpu.kept_graphs import ARCH, OTHERS, Kept

CHUNK = 120
"""Kernels per file: about 9 s of processor time whatever is in it, and a half for each."""
FILE = "emitted_kernels.mojo"
"""Its name, which must not end the path of a file of MAX's (`builtin_kernels/kernels.mojo`)."""

MAIN = """

def main() raises:
    var ctx = max.gpu.host.device_context.DeviceContext()
    var data = Pointer[Scalar[DType.int8], MutAnyOrigin].unsafe_dangling()
    var pointer = data.unsafe_bitcast[NoneType]()
"""
ARGUMENTS = {
    "OpaquePointer[MutAnyOrigin]": "pointer",
    "max.gpu.host.device_context.DeviceContext": "ctx",
}


class Kernels:
    """The kernels of a folder's graphs for some GPUs, or for all, those that are alike once."""

    def __init__(self, kept: Kept, *archs: str) -> None:
        self.imports = ""
        self.alike: dict[str, Kernel] = {}
        self.of_graph: dict[str, set[str]] = {}
        used = {key for arch in archs or (ARCH, *OTHERS) for key in kept.keys(arch).values()}
        for file in sorted(kept.emitted.glob("*.json")):
            emitted, graphs = read(file)
            assert self.imports in ("", emitted.imports)
            self.imports = emitted.imports
            for key in sorted(used & set(graphs)):
                kernels = {kernel.alike: kernel for kernel in emitted.kernels(graphs[key])}
                self.of_graph[key] = set(kernels)
                self.alike = kernels | self.alike

    def in_order(self, keys: Sequence[str], known: Collection[str] = ()) -> list[str]:
        """First some that hold all calls that `known` ones do not; then those of many graphs."""
        graphs: dict[str, int] = {}
        for key in keys:
            for alike in self.of_graph.get(key, ()):
                graphs[alike] = graphs.get(alike, 0) + 1
        found = sorted(graphs, key=lambda each: hashlib.sha256(each.encode()).digest())
        held = {call for alike in set(known) & set(found) for call in self.alike[alike].calls}
        left = [alike for alike in found if alike not in known]
        calls: Counter[str] = Counter()
        for alike in found:
            calls.update(dict.fromkeys(self.alike[alike].calls, graphs[alike]))
        first = cover({alike: self.alike[alike].calls - held for alike in left}, calls)
        others = [alike for alike in left if alike not in set(first)]
        return first + sorted(others, key=lambda alike: -graphs[alike])

    def source(self, alikes: Sequence[str]) -> tuple[str, list[str]]:
        """A file that launches kernels, and the kernel of each of its lines, or ""."""
        text, calls = self.imports, ""
        lines = [""] * (text.count("\n") + 1)
        for number, alike in enumerate(alikes):
            kernel = self.alike[alike]
            name, part = kernel.renamed(lambda place: f"k{number}_{place}")  # noqa: B023
            text += f"\n\n\n{part}"
            lines += [alike] * (text.count("\n") + 1 - len(lines))
            calls += f"    {name}({', '.join(ARGUMENTS[type_] for type_ in kernel.arguments)})\n"
        text += MAIN
        lines += [""] * (text.count("\n") - len(lines))
        return text + calls, [*lines, *alikes]


def cover(sets: dict[str, set[str]], weights: Mapping[str, int] | None = None) -> list[str]:
    """The names of few of the sets that hold every member, those of the greatest weight first.

    A member weighs 1 unless `weights` says more.
    """
    weights = weights or {}
    left = {name: set(members) for name, members in sets.items()}
    chosen: list[str] = []
    held: set[str] = set()
    while left:
        name = max(left, key=lambda name: sum(weights.get(m, 1) for m in left[name] - held))
        new = left.pop(name) - held
        if not new:
            break
        held |= new
        chosen.append(name)
        left = {name: members - held for name, members in left.items() if members - held}
    return chosen


def compile_all(arch: str, kept: Kept, seconds: float = float("inf")) -> None:
    """Compile the kernels of which nothing is known yet, until `seconds` are over."""
    kernels = Kernels(kept, arch)
    keys = list(kept.keys(arch).values())
    known = kept.kernels_compiled(arch)
    left = kernels.in_order(keys, known)
    chunks = [left[i : i + CHUNK] for i in range(0, len(left), CHUNK)]
    start = _processor_seconds()
    while chunks and _processor_seconds() - start < seconds:
        chunk = chunks.pop(0)
        failed = _compile(arch, kept, kernels, chunk)
        if failed is not None:
            others = [alike for alike in chunk if alike not in failed]
            half = 0 if failed else len(others) // 2
            chunks[:0] = [some for some in (others[:half], others[half:]) if some]


def _compile(arch: str, kept: Kept, kernels: Kernels, alikes: Sequence[str]) -> set[str] | None:
    """Compile one file. None if all is well, else the kernels that failed, as far as named."""
    text, lines = kernels.source(alikes)
    before = _processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / FILE
        source.write_text(text)
        said, files = _mojo(arch, source, Path(kept.kernels.read_text()).parent)
        functions = len(files)
        missing = sorted({name for file in files for name in undefined(file.read_text())})
    seconds = _processor_seconds() - before
    if missing:
        said += f"\nerror: calls {', '.join(missing)}, which no GPU has"
    failed = failures(said, lines)
    if "error:" in said and not failed and len(alikes) == 1:
        failed = {alikes[0]: said}
    for alike, why in failed.items():
        kept.note_kernel(arch, alike, "failed", why=cause(why))
    print(
        f"{len(alikes)} kernels for {arch}: {functions} functions, {seconds:.0f} s, "
        f"{len(failed)} failed" + (": " + cause(said) if "error:" in said else ""),
        flush=True,
    )
    if "error:" in said:
        return set(failed)
    for alike in alikes:
        kept.note_kernel(arch, alike, "compiled", seconds=round(seconds / len(alikes), 2))
    return None


def _mojo(arch: str, source: Path, packages: Path) -> tuple[str, list[Path]]:
    """What `mojo build` says, if it says "error:", and the assembly of each launched function."""
    from mojo.run import subprocess_run_mojo

    command = ["build", "--emit", "asm", "-O1", "--target-accelerator", arch, "-I", str(packages)]
    command += ["--max-notes-per-diagnostic", "200"]  # the line of our file is among the last
    command += [str(source), "-o", str(source.with_name("host.s"))]
    ended = subprocess_run_mojo(command, capture_output=True, check=False)
    said = ended.stderr.decode(errors="replace")
    if ended.returncode != 0 and "error:" not in said:
        said += f"\nerror: the compiler ended with status {ended.returncode}"
    files = [*source.parent.glob("host_*.ptx"), *source.parent.glob("host_*.amdgcn")]
    return (said if "error:" in said else ""), files


def failures(said: str, lines: Sequence[str]) -> dict[str, str]:
    """What the compiler says of each kernel that it names, by a line of the file."""
    found: dict[str, str] = {}
    for part in re.split(r"(?=^\S*: (?:error|warning): )", said, flags=re.M):
        if not re.match(r"\S*: error: ", part):
            continue  # a warning names lines, too
        for line in re.findall(rf"\b{re.escape(FILE)}:(\d+):", part):
            if int(line) <= len(lines) and (alike := lines[int(line) - 1]):
                found.setdefault(alike, part)
    return found


SYSTEM_CALLS = {"vprintf", "malloc", "free", "__assertfail"}
"""Functions that CUDA's driver has for every kernel."""


def undefined(code: str) -> set[str]:
    """The functions that a GPU function calls and that are not in its file."""
    if ".visible .entry" in code:
        called = set(re.findall(r"^\.extern \.func .*?(\w+)\s*$", code, re.M))
        called |= set(re.findall(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", code, re.M))
        return called - SYSTEM_CALLS
    called = set(re.findall(r"(\w+)@(?:rel32|gotpcrel32)@lo", code))
    return called - set(re.findall(r"^(\w+):", code, re.M))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arch: str, folder: str, what: str = "") -> int:
    kept = Kept(Path(folder))
    if what == "failed":
        kept.forget_failed_kernels(arch)
    compile_all(arch, kept, float(what) if what.isdigit() else float("inf"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
