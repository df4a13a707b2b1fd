"""Dead calls: what nothing reads is not computed.

1. A call is dropped if neither a result of the program nor another kept call reads it.
2. A call of an op that returns nothing is kept: it is there for its effect.

AOTAutograd removes dead nodes itself; other front ends need not. The passes that follow rely on it
and leave no dead calls behind either (`with_calls`).
"""

from __future__ import annotations

from torch_max_backend.program.program import Program, with_calls


def remove_dead_calls(program: Program) -> Program:
    """`program` without the calls that nothing reads."""
    alive = with_calls(program, program.calls)
    return program if len(alive.calls) == len(program.calls) else alive
