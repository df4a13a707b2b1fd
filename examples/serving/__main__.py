"""`python -m examples.serving model.maxpkg`: serve a package over HTTP."""

from __future__ import annotations

import argparse

import uvicorn

from examples.serving.app import create_app
from examples.serving.settings import Settings

_HELP = {
    "workers": "processes that compute",
    "max_batch": "rows of one call at most; 1 turns batching off",
    "window": "seconds that a request waits for others to share its call",
    "max_queue": "requests that may wait; one more is refused",
    "max_body": "bytes of a request at most",
    "timeout": "seconds until a request is given up",
    "call_timeout": "seconds after which a silent worker is ended and replaced",
    "stop_timeout": "seconds that a stopping server waits for accepted requests",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.serving",
        description="serve a package over HTTP",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("package", help="a file that save_package wrote")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    for name, text in _HELP.items():
        default = getattr(Settings, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, help=text)
    parser.add_argument("--threads", type=int, help="processors of a worker")
    parser.add_argument("--public-key", metavar="KEYFILE", help="who must have signed the package")
    args = vars(parser.parse_args())
    host, port = args.pop("host"), args.pop("port")
    settings = Settings(**args)
    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        backlog=2048,
        access_log=False,
        timeout_graceful_shutdown=int(settings.stop_timeout),
    )


if __name__ == "__main__":
    main()
