"""The child process in which MAX compiles: one Module in, one artifact out, then it ends.

Run as a script. It imports MAX and not this package, whose import would bring PyTorch along: that
takes seconds, and nothing here needs it. Whatever MAX's compiler does to its process, the user's
process only sees a child that ended.

    python -P compile_worker.py <folder>    compile the graphs of a crash report, right here
"""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

POLL = 0.005
"""Seconds between two looks at a compile that runs."""


@dataclass(frozen=True)
class Job:
    """What a child is asked to do. As plain values on its way, see `as_message`."""

    graphs: Sequence[bytes]
    """The graphs of one Module, each in MLIR's binary form."""
    kernels: Sequence[str]
    """Precompiled Mojo packages."""
    verify: bool = False
    """Only find the graphs that MAX's verifier rejects: a second where compiling takes twelve."""
    cpu: str = ""
    """LLVM's name of the CPU to compile for; "" is the CPU of this machine."""

    def as_message(self) -> dict[str, Any]:
        return {
            "graphs": list(self.graphs),
            "kernels": list(self.kernels),
            "verify": self.verify,
            "cpu": self.cpu,
        }


def compiler() -> Any:
    """MAX's compiler for the devices of this machine."""
    from max import driver
    from max.engine import InferenceSession

    gpus = [driver.Accelerator(index) for index in range(driver.accelerator_count())]
    return InferenceSession(devices=[*gpus, driver.CPU()])


def do(job: Job, session: Any) -> dict[str, Any]:
    """The artifact of a Module ("artifact"), or why there is none ("rejected").

    For a `verify` job: the messages of the rejected graphs by their place ("rejected_graphs").
    """
    if job.verify:
        from max.engine import InferenceSession

        InferenceSession.debug.pre_jit = True
        try:
            return {"rejected_graphs": _rejected(job, session, range(len(job.graphs)))}
        finally:
            InferenceSession.debug.pre_jit = False
    from max import driver

    if job.cpu:
        driver.set_virtual_cpu_target(job.cpu)
    try:
        compiled = _compile(job.graphs, job.kernels, session)
    except Exception as error:
        return {"rejected": _messages(error)}
    finally:
        if job.cpu:
            driver.set_virtual_cpu_target("")  # where no child could be started, others follow
    return {"artifact": _exported(compiled)}


def _compile(graphs: Sequence[bytes], kernels: Sequence[str], session: Any) -> Any:
    compat = _compat()
    module = compat.module_of(graphs)
    compiled = session.compile_async(module, custom_extensions=list(kernels))
    handle = compat.compile_handle(compiled)
    # Wait in Python, not in MAX: there neither Ctrl-C nor the end of the parent has an effect.
    while not handle.done():
        time.sleep(POLL)
    if (error := handle.exception()) is not None:
        raise error
    return compiled


def _rejected(job: Job, session: Any, places: Sequence[int]) -> dict[int, list[str]]:
    """The graphs that the verifier rejects, found by halving."""
    try:
        _compile([job.graphs[place] for place in places], job.kernels, session)
    except Exception as error:
        messages = _messages(error)
        if any("pre-jit" in message for message in messages):
            return {}  # it got as far as it was asked to
        if len(places) == 1:
            return {places[0]: messages}
        half = len(places) // 2
        first = _rejected(job, session, places[:half])
        return first | _rejected(job, session, places[half:])
    return {}


def _exported(compiled: Any) -> bytes:
    """The artifact's bytes. MAX writes to a path only, and refuses one without free space."""
    folders = [folder for folder in ("/dev/shm", tempfile.gettempdir()) if os.path.isdir(folder)]
    for folder in folders:
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix="tmb-artifact-") as private:
                path = Path(private) / "module.mef"
                compiled.export_mef(path)
                return path.read_bytes()
        except (OSError, ValueError):
            if folder == folders[-1]:
                raise
    raise AssertionError("a machine without a folder for temporary files")


def _messages(error: BaseException) -> list[str]:
    """What an error and its causes say, the deepest last."""
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(str(cause).strip())
        cause = cause.__cause__
    return messages


def _compat() -> Any:
    """`compat/max.py` by its path: see this file's first lines."""
    path = Path(__file__).parents[1] / "compat" / "max.py"
    spec = importlib.util.spec_from_file_location("max_compat", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _end_with_the_parent(connection: Connection) -> None:
    try:
        connection.recv()
    except (EOFError, OSError):
        os._exit(1)


def serve(connection: Connection) -> None:
    """Answer one job. Everything that takes time before it comes is done before it comes."""
    faulthandler.enable()
    sys.path[:] = connection.recv()
    session = compiler()
    try:
        message = connection.recv()
    except EOFError:
        return  # a spare that was not needed
    threading.Thread(target=_end_with_the_parent, args=(connection,), daemon=True).start()
    start = time.perf_counter()
    try:
        reply = do(Job(**message), session)
    except Exception as error:
        reply = {"rejected": _messages(error)}
    used = resource.getrusage(resource.RUSAGE_SELF)
    reply["seconds"] = time.perf_counter() - start
    reply["processor_seconds"] = used.ru_utime + used.ru_stime
    reply["peak_mib"] = used.ru_maxrss / 1024
    connection.send(reply)


def compile_again(folder: Path) -> None:
    """Compile the graphs of a crash report in this process."""
    faulthandler.enable()
    graphs = [path.read_bytes() for path in sorted(folder.glob("*.mlirbc"))]
    kernels = (folder / "kernels.txt").read_text().splitlines()
    reply = do(Job(graphs, kernels), compiler())
    text = f"compiled, {len(reply['artifact'])} bytes" if "artifact" in reply else reply["rejected"]
    print(text, flush=True)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        serve(Connection(int(sys.argv[1])))
    else:
        compile_again(Path(sys.argv[1]))
    os._exit(0)  # MAX's destructors have nothing to tell anybody, and abort now and then
