"""Several threads at once, none of which can fail or hang unseen."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def running(count: int, work: Callable[[int], object], seconds: float = 300) -> Iterator[None]:
    """Run `work(0)`, `work(1)`, ... in `count` threads beside the block.

    Leaving the block waits for them, and raises what one of them raised.
    """
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"a thread still runs after {seconds} s"
    if errors:
        raise errors[0]
