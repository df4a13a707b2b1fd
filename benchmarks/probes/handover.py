"""How close the cores are to each other: `python -m benchmarks.probes.handover`.

Two threads pass a cache line to and fro. A virtual machine's cores may share a cache or not, and
the host changes that from minute to minute: what one core has written then takes longer to read on
the other, and kernels of some microseconds take up to twice as long (docs/performance.md).
"""

from __future__ import annotations

from pathlib import Path

from mojo.run import subprocess_run_mojo


def nanoseconds() -> int:
    """The median time to the other core and back; needs two cores that nobody else uses."""
    program = Path(__file__).with_suffix(".mojo")
    return int(subprocess_run_mojo(["run", str(program)], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    print(f"{nanoseconds()} ns to the other core and back")
