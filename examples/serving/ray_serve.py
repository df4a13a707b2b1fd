"""The same package on Ray Serve: `python -m examples.serving.ray_serve model.maxpkg`.

Ray starts the replicas, balances and replaces them, and batches what each of them gets; the package
is loaded and called as in our own workers, and requests are those of our own server. Sequences are
not served: Ray's router knows no slots.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from ray import serve

from examples.serving import protocol
from examples.serving.messages import Arrays, Wrong
from examples.serving.runner import Runner

app = FastAPI()
Item = tuple[str, Arrays]


def run_together(runner: Runner, items: list[Item]) -> list[Arrays | Wrong]:
    """One call for all requests of an entry with equal shapes; results in their order."""
    groups: dict[Any, list[int]] = {}
    for place, (name, inputs) in enumerate(items):
        shapes = tuple(array.shape[1:] for array in inputs.values())
        groups.setdefault((name, shapes), []).append(place)
    results: dict[int, Arrays | Wrong] = {}
    for (name, _), places in groups.items():
        found = runner.run(name, [items[place][1] for place in places])
        results.update(zip(places, found, strict=True))
    return [results[place] for place in range(len(items))]


class Served:
    """A replica: a process that has the package."""

    def __init__(self, package: str) -> None:
        from torch_max_backend import load_package

        self.runner = Runner(load_package(package))

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.005)
    async def together(self, items: list[Item]) -> list[Arrays | Wrong]:
        return await asyncio.to_thread(run_together, self.runner, items)

    @app.post("/v2/models/{name}/infer")
    async def infer(self, name: str, body: protocol.InferRequest) -> Response:
        entry = self.runner.entries.get(name)
        if entry is None:
            raise HTTPException(404, f"there is no entry {name!r}")
        try:
            result = await self.together((name, protocol.arrays(entry, body)))
        except protocol.InvalidRequest as error:
            raise HTTPException(400, str(error)) from None
        if isinstance(result, Wrong):
            raise HTTPException(400 if result.of_inputs else 500, result.why)
        headers = {"x-replica-pid": str(os.getpid())}
        content = protocol.answer(name, body.id, result)
        return Response(content, media_type="application/json", headers=headers)


DEPLOYMENT = serve.deployment(serve.ingress(app)(Served))


def start(package: str, replicas: int, port: int) -> None:
    """Start Ray on this machine alone, if it is not running, and serve a package with it."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its authors
    if not ray.is_initialized():
        ray.init(
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            object_store_memory=100 * 2**20,
            log_to_driver=False,
        )
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    deployment = DEPLOYMENT.options(
        num_replicas=replicas, max_ongoing_requests=256, ray_actor_options={"num_cpus": 0.5}
    )
    serve.run(deployment.bind(os.path.abspath(package)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    start(args.package, args.replicas, args.port)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    print("ready", flush=True)
    stopped.wait()
    serve.shutdown()


if __name__ == "__main__":
    main()
