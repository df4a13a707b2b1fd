"""How long a cache line takes from one core to another and back: the median, in nanoseconds."""

from max.algorithm import sync_parallelize
from std.atomic import Atomic
from std.time import perf_counter_ns

comptime ROUNDS = 101
comptime TURNS = 2_000


def main():
    var numbers = List[Int64](length=1, fill=0)
    var line = numbers.unsafe_ptr()
    var times = List[Int](length=ROUNDS, fill=0)
    var taken = times.unsafe_ptr()

    def member(t: Int) {line, taken}:
        for r in range(ROUNDS):
            var begin = perf_counter_ns()
            for turn in range(r * TURNS, (r + 1) * TURNS):
                while Int(Atomic[Int64].load(line)) != 2 * turn + t:
                    pass
                _ = Atomic[Int64].fetch_add(line, Int64(1))
            if t == 0:
                taken[unsafe_offset=r] = Int(perf_counter_ns() - begin) // TURNS

    sync_parallelize(member, 2)
    sort(times)
    print(times[ROUNDS // 2])
    _ = numbers^
