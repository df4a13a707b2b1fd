"""A worker process: it has the package, computes calls, and generates between them.

One thread reads messages, so that the other can compute. The process ends when its socket does: the
front has gone, or has nothing more for it.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.serving.messages import (
    Call,
    Cancel,
    Done,
    Generate,
    Ready,
    Unusable,
    encode,
    receive_blocking,
)

if TYPE_CHECKING:
    from torch_max_backend import Package


def serve(connection: socket.socket, package: Package) -> None:
    """Compute what comes in; never returns."""
    from examples.serving.generation import Generator, generates
    from examples.serving.runner import Runner

    runner = Runner(package)
    generator = Generator(package) if generates(package) else None
    slots, limit = (generator.slots, generator.limit) if generator else (0, 0)
    connection.sendall(encode(Ready(tuple(runner.entries.values()), slots, limit)))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()
    while True:
        idle = generator is None or not generator.active
        while idle or not inbox.empty():
            message = inbox.get()
            if isinstance(message, Call):
                connection.sendall(encode(Done(runner.run(message.entry, message.requests))))
            elif isinstance(message, Generate) and generator is not None:
                for told in generator.admit(message):
                    connection.sendall(encode(told))
                idle = not generator.active
            elif isinstance(message, Cancel) and generator is not None:
                generator.cancel(message.id)
        if generator is not None:
            for told in generator.step():
                connection.sendall(encode(told))


def _read(connection: socket.socket, inbox: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            inbox.put(receive_blocking(connection))
    except (EOFError, OSError):
        os._exit(0)  # also while a call is computed: nobody waits for it


def main() -> None:
    """Load the package and serve it over an inherited socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket", type=int)
    parser.add_argument("package")
    parser.add_argument("--cpus", required=True)
    parser.add_argument("--key")
    args = parser.parse_args()
    # A terminal or a service manager sends them to all processes; the front ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        # Before the import: MAX starts as many threads as the process has processors.
        os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})
    connection = socket.socket(fileno=args.socket)
    try:
        from torch_max_backend import load_package

        key = None if args.key is None else Path(args.key).read_bytes()
        package = load_package(args.package, public_key=key)
    except Exception as error:
        connection.sendall(encode(Unusable(f"{type(error).__name__}: {error}")))
        sys.exit(1)
    serve(connection, package)


if __name__ == "__main__":
    main()
