"""Where the time of a compile goes: `python -m benchmarks.probes.stages script.py [arguments]`.

Runs a script that compiles with MAX, with an empty cache, and divides the processor time of each
compile into stages. MAX reports no stages itself; the log of its caches shows where each one ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

BEGIN = "isModelIRCacheEnabled"
MOJO_CACHE = "/.mojo_cache/"
NAMES = (
    "graph compiler and Mojo parser",
    "first transformation",
    "up to the kernel lookup",
    "second transformation",
    "object code",
)


@dataclass
class Stages:
    """The ends of the stages of one compile, in seconds of processor time."""

    begin: float
    ends: list[float] = field(default_factory=list)
    kernels: str = ""

    def read(self, line: str, now: float) -> bool:
        """Take note of a line of the log; whether it was the last one of this compile."""
        if "checkCache summary: " in line:
            self.kernels = line.partition("summary: ")[2].strip()
        if line_ends_stage(line, len(self.ends)):
            self.ends.append(now)
        return "write success" in line and "/.max_cache/" in line

    def __str__(self) -> str:
        starts = [self.begin, *self.ends]
        parts = [
            f"{name} {end - start:.1f}"
            for name, start, end in zip(NAMES, starts, self.ends, strict=False)
        ]
        return f"{', '.join(parts)} s ({self.kernels})"


def line_ends_stage(line: str, stage: int) -> bool:
    """Whether a line of the log is the end of a stage, counted from 0."""
    if stage == 0:
        return "final cache path=" in line and MOJO_CACHE in line
    if stage == 2:
        return "checkCache: keyHash=" in line
    return "write success" in line and MOJO_CACHE in line


def processor_time(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "MODULAR_CACHE_DIR": cache,
            "MODULAR_ENABLE_CACHE_LOGGING": "1",
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            [sys.executable, *sys.argv[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        stages: Stages | None = None
        for line in process.stdout:
            if "[modular-cache]" not in line:
                print(line, end="", flush=True)
                continue
            now = processor_time(process.pid)
            if BEGIN in line:
                stages = Stages(now)
            elif stages is not None and stages.read(line, now):
                print(stages, flush=True)
                stages = None
        sys.exit(process.wait())


if __name__ == "__main__":
    main()
