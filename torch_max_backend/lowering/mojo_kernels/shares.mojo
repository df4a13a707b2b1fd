"""Work in shares, one per core: what a core has written into its cache, it reads again.

Kernels that divide their rows in the same way hand results to each other within a core. Reading
what another core has written takes several times as long.
"""

from max.runtime.asyncrt import parallelism_level
from std.atomic import Atomic
from std.ffi import external_call
from std.sys.info import CompilationTarget

from .team import LINE, in_team


@always_inline
def _core(otherwise: Int) -> Int:
    """The core that this thread runs on; `otherwise` where the system does not tell."""
    comptime if CompilationTarget.is_linux():
        return max(0, Int(external_call["sched_getcpu", Int32]()))
    else:
        return otherwise


@always_inline
def each_share[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int, Int, Int) -> None, //
](shares: Int, units: Int, together: Int, body: Body):
    """Run `body(share, first, last)` over the units of each share, `together` at a time.

    There is a thread for each share. It claims units of its core's share, then of the others, so that
    none waits for one that is late.
    """
    if shares == 1:
        body(0, 0, units)
        return
    var counters = List[Int64](length=shares * LINE, fill=0)
    var claimed = counters.unsafe_ptr()

    @always_inline
    def member(t: Int) {body, shares, units, together, claimed}:
        var own = _core(t)
        for offset in range(shares):
            var share = (own + offset) % shares
            var counter = claimed.unsafe_offset(share * LINE)
            while True:
                var first = Int(Atomic[Int64].fetch_add(counter, Int64(together)))
                if first >= units:
                    break
                body(share, first, min(first + together, units))

    in_team(shares, member)
    _ = counters^  # must outlive the pointer into it


@always_inline
def each_part[
    Body: ImplicitlyCopyable & RegisterPassable & def(Int, Int) -> None, //
](count: Int, tasks: Int, body: Body):
    """Run `body(first, last)` over `count` neighbours in about `tasks` tasks, each core's together."""
    var shares = max(1, min(tasks, parallelism_level(None)))
    var units = (count + shares - 1) // shares
    var together = max(1, count // max(1, tasks))

    @always_inline
    def some(share: Int, first: Int, last: Int) {body, count, shares}:
        var begin = count * share // shares
        var end = count * (share + 1) // shares
        if begin + first < end:
            body(begin + first, min(end, begin + last))

    each_share(shares, units, together, some)
