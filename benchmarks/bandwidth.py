"""How fast this machine reads memory, as one more process that takes turns with the engines.

One call reads a gigabyte of floats, more than any cache holds, with all threads: the rate bounds
the time of a decoded token, which reads every weight once. `python -m benchmarks.bandwidth THREADS`
serves the protocol of `benchmarks.worker`.
"""

from __future__ import annotations

import json
import sys

from benchmarks.worker import serve

BYTES = 2**30


def main(threads: str) -> None:
    import torch

    replies = sys.stdout
    torch.set_num_threads(int(threads))
    buffer = torch.ones(BYTES // 4)
    buffer.sum()
    print(json.dumps({"first": 0.0}), file=replies, flush=True)
    serve(buffer.sum, replies)


if __name__ == "__main__":
    main(*sys.argv[1:])
