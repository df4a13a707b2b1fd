"""A worker without PyTorch and MAX, to be told how to behave: it starts at once.

`double` doubles its rows. A row of 13 ends the process, a row of 99 makes it hang, a row of -1 is
an error. Prompts are continued by counting; a prompt that begins with 13 ends the process after
two tokens, unless it has more tokens than that one.
"""

from __future__ import annotations

import argparse
import os
import queue
import socket
import threading
import time
from typing import Any

import numpy as np

from examples.serving import worker
from examples.serving.entries import Entry, Rows, Tensor
from examples.serving.messages import (
    Arrays,
    Call,
    Cancel,
    Done,
    End,
    Generate,
    Ready,
    Token,
    Unusable,
    Wrong,
    encode,
)

ENTRIES = (Entry("double", (Tensor("x", "float32", ("s0", 2)),), Rows(1, None)),)
SLOTS = 2
LIMIT = 4000
PAUSE = 0.02


def double(requests: list[Arrays]) -> list[Arrays | Wrong]:
    rows = np.concatenate([request["x"] for request in requests])
    if (rows == 13).any():
        os._exit(13)
    if (rows == 99).any():
        time.sleep(3600)
    time.sleep(PAUSE)
    return [_doubled(request["x"]) for request in requests]


def _doubled(x: np.ndarray) -> Arrays | Wrong:
    return Wrong("it is negative", True) if (x == -1).any() else {"output": x * 2}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("socket", type=int)
    parser.add_argument("package")
    parser.add_argument("--cpus")
    args = parser.parse_args()
    connection = socket.socket(fileno=args.socket)
    if args.package == "damaged":
        connection.sendall(encode(Unusable("PackageError: it is damaged")))
        return
    connection.sendall(encode(Ready(ENTRIES, SLOTS, LIMIT)))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=worker._read, args=(connection, inbox), daemon=True).start()
    sequences: dict[int, tuple[Generate, int]] = {}
    while True:
        while not sequences or not inbox.empty():
            message = inbox.get()
            if isinstance(message, Call):
                connection.sendall(encode(Done(double(message.requests))))
            elif isinstance(message, Generate):
                assert len(sequences) < SLOTS
                sequences[message.id] = (message, 0)
            elif isinstance(message, Cancel):
                sequences.pop(message.id, None)
        time.sleep(PAUSE / 10)
        for id, (asked, made) in list(sequences.items()):
            if asked.tokens[0] == 13 and made == 2 and len(asked.tokens) == 1:
                os._exit(13)
            connection.sendall(encode(Token(id, asked.tokens[-1] + made + 1)))
            sequences[id] = (asked, made + 1)
            if made + 1 == asked.count:
                del sequences[id]
                connection.sendall(encode(End(id, "length")))


if __name__ == "__main__":
    main()
