"""Convolution networks as one kernel: a program of instructions over images with channels last.

MAX compiles a kernel for every size that it is called with, and a network has other sizes in every
layer. Here the sizes are numbers that the kernel reads, so that a whole network is one kernel.

An instruction computes one image, tile by tile: some pixels of a row times the channels of a panel.
What follows a convolution (bias, activation, sum) is applied to the tile before it is stored. Images
lie in a workspace; a pixel is a row of channels, which may be part of a longer one: so a
concatenation is free. Padding is a border of zeros around an image.

The threads run the whole program as a team. Each instruction is divided into tasks, and each thread
into a share of them; a thread that is done with its own takes those of others. So no thread waits for
one that has not begun, and a thread alone can run everything.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.atomic import Atomic
from std.math import sqrt
from std.sys.info import simd_width_of
from std.time import perf_counter_ns

from .image_convolution import HELD, convolution, half_of
from .image_depthwise import depthwise
from .image_ends import border, load, store
from .image_instructions import *
from .image_pooling import mean_of_image, pool
from .image_steps import finish, place_of
from .image_winograd import SIDE, pixel_floats, tile_floats, tiles_together, winograd
from .launch import host_only
from .team import LINE, PATIENCE, in_team, offer_core, pause

comptime SMALLEST = 32 * 1024
"""Multiplications of a task: fewer would not repay claiming it."""

comptime TASKS = 12
"""Tasks per thread, so that other threads can take over if one's core is busy."""

comptime ALONE = 1024 * 1024
"""Multiplications of a program that one thread runs: fewer would not repay waking another."""


@fieldwise_init
struct Plan(ImplicitlyCopyable):
    """How an instruction is divided."""

    var batches: Int
    var h: Int
    var w: Int
    var channels: Int
    var lines: Int
    """Rows of a tile."""
    var strips: Int
    """Tiles of a row."""
    var tiles: Int
    """Of Winograd's algorithm."""
    var places: Int
    var panels: Int
    var by_panel: Bool
    var tasks: Int
    var cost: Int


def plan_of[N: Int, W: Int](p: Pointer[Int64, _], times: Int, workers: Int) -> Plan:
    comptime ROWS = 2 * half_of[W]()
    var what = at(p, 0)
    var batches = at(p, AT_SIZE) * times
    var h = at(p, AT_SIZE + 1)
    var w = at(p, AT_SIZE + 2)
    if at(p, AT_LINE) != 0:
        w = w * batches
        batches = 1
    var channels = at(p, AT_SIZE + 3)
    var panels = 1 if what == LAYER_NORM else (channels + N - 1) // N
    var taps = at(p, AT_WINDOW) * at(p, AT_WINDOW + 1)
    var depth = at(p, AT_INPUT + 2) * taps
    var lines = 1
    if what == CONVOLUTION and w <= ROWS // 2 and 2 * w > ROWS // 2 and h > 1:
        lines = 2
    var strips = 1 if what == LOAD or what == STORE else max(1, (w + ROWS - 1) // ROWS)
    var places = batches * ((h + lines - 1) // lines) * strips
    var tiles = 0
    if what == BORDER:
        places = batches
        panels = 1
    elif what == WINOGRAD:
        tiles = batches * ((h + SIDE - 1) // SIDE) * ((w + SIDE - 1) // SIDE)
        var together = tiles_together[W](tiles, at(p, AT_INPUT + 2))
        places = (tiles + together - 1) // together
    var cost = batches * h * w * channels
    if what == CONVOLUTION:
        cost = cost * depth
    elif what == WINOGRAD:
        cost = cost * depth // 4
    elif what == DEPTHWISE or what == MAX_POOL or what == AVERAGE_POOL:
        cost = cost * taps * 4
    elif what == MEAN:
        cost = cost * at(p, AT_INPUT) * at(p, AT_INPUT + 1)
    elif what == BORDER:
        cost = batches * (h + w) * channels
    else:
        cost = cost * 8
    var by_panel = what == CONVOLUTION and depth * channels > HELD
    var tasks = max(1, min(min(places * panels, TASKS * workers), cost // SMALLEST))
    return Plan(batches, h, w, channels, lines, strips, tiles, places, panels, by_panel, tasks, cost)


@always_inline
def _mean[
    W: Int
](values: Pointer[Scalar[F], _], count: Int, around: Float32, squared: Bool) -> Float32:
    """The mean of numbers, or of the squares of their distances from `around`."""
    var total = SIMD[F, W](0)
    var place = 0
    while place + W <= count:
        var v = values.unsafe_offset(place).unsafe_load[width=W]() - around
        total += v * v if squared else v
        place += W
    var sum = total.reduce_add()
    while place < count:
        var v = values[unsafe_offset=place] - around
        sum += v * v if squared else v
        place += 1
    return sum / Float32(count)


def _units[
    N: Int, W: Int
](
    p: Pointer[Int64, _],
    plan: Plan,
    times: Int,
    start: Int,
    end: Int,
    x: Pointer[Scalar[F], _],
    result: Pointer[mut=True, Scalar[F], _],
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    tile: Pointer[mut=True, Scalar[F], _],
):
    """Units of any instruction but a convolution: the pixels of a strip, and a panel."""
    var what = at(p, 0)
    var pixels = (plan.w + plan.strips - 1) // plan.strips
    var row = at(p, AT_SOURCE + 2)
    var pixel = at(p, AT_SOURCE + 3)
    var channels = plan.channels
    for unit in range(start, end):
        var place = unit // plan.panels
        var image = place // (plan.h * plan.strips)
        var y = place // plan.strips % plan.h
        var left = place % plan.strips * pixels
        var rows = min(pixels, plan.w - left)
        var channel = unit % plan.panels * N
        if rows <= 0:
            continue
        var source = place_of(p, AT_SOURCE, AT_ROOTS + 1, times, image)
        var first = source + y * row + left * pixel + channel
        var to = (
            place_of(p, AT_RESULT, AT_ROOTS, times, image)
            + y * at(p, AT_RESULT + 2)
            + left * at(p, AT_RESULT + 3)
        )
        if what == DEPTHWISE:
            depthwise[N, W](
                p, images.unsafe_offset(source), weights, plan.panels, y, left, channel, rows, tile
            )
        elif what == POINTWISE:
            for r in range(rows):
                comptime for c in range(0, N, W):
                    tile.unsafe_offset(r * N + c).unsafe_store(
                        images.unsafe_offset(first + r * pixel + c).unsafe_load[width=W]()
                    )
        elif what == MAX_POOL:
            pool[MAX_POOL, N, W](
                p, images.unsafe_offset(source + channel), y, left, rows, tile
            )
        elif what == AVERAGE_POOL:
            pool[AVERAGE_POOL, N, W](
                p, images.unsafe_offset(source + channel), y, left, rows, tile
            )
        elif what == MEAN:
            mean_of_image[N, W](p, images.unsafe_offset(source + channel), tile)
        elif what == LOAD:
            load[N](p, x, images, to + channel, image, y, channel)
            continue
        elif what == STORE:
            store[N](p, images.unsafe_offset(first), result, image, y, channel)
            continue
        elif what == LAYER_NORM:
            comptime ROWS = 2 * half_of[W]()
            var means = Array[Float32, ROWS](fill=0)
            var scales = Array[Float32, ROWS](fill=0)
            for r in range(rows):
                var values = images.unsafe_offset(first + r * pixel)
                means[r] = _mean[W](values, channels, 0, False)
                var variance = _mean[W](values, channels, means[r], True)
                scales[r] = 1 / sqrt(variance + numbers[unsafe_offset = at(p, AT_FLAG)])
            for begin in range(0, channels, N):
                for r in range(rows):
                    comptime for c in range(0, N, W):
                        var v = images.unsafe_offset(first + r * pixel + begin + c).unsafe_load[
                            width=W
                        ]()
                        tile.unsafe_offset(r * N + c).unsafe_store((v - means[r]) * scales[r])
                finish[N, W](
                    p,
                    times,
                    tile,
                    rows,
                    min(N, channels - begin),
                    images,
                    to + begin,
                    weights,
                    numbers,
                    image,
                    y,
                    left,
                    begin,
                )
            continue
        finish[N, W](
            p,
            times,
            tile,
            rows,
            min(N, channels - channel),
            images,
            to + channel,
            weights,
            numbers,
            image,
            y,
            left,
            channel,
        )


@always_inline
def _wait(done: Pointer[mut=True, Int64, _], tasks: Int):
    """Until all tasks are done: those that are left have been claimed by threads that run."""
    var looks = 0
    while Int(Atomic[Int64].load(done)) < tasks:
        looks += 1
        if looks > PATIENCE:
            offer_core()
        else:
            pause()


def run_as[
    N: Int, W: Int
](
    member: Int,
    workers: Int,
    times: Int,
    program: Pointer[Int64, _],
    count: Int,
    claimed: Pointer[mut=True, Int64, _],
    x: Pointer[Scalar[F], _],
    result: Pointer[mut=True, Scalar[F], _],
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
    ends: Pointer[mut=True, Int64, _],
    timed: Bool,
    pixels: Int,
):
    """Run a program as one member of a team.

    `claimed` has a cache line for each instruction and member, where the tasks of that member's share
    are counted as they are claimed, and one for those that are done.
    """
    var floats = 2 * half_of[W]() * N
    if pixels > 0:
        floats = max(floats, tile_floats[N, W]())
    var scratch = List[Scalar[F]](unsafe_uninit_length=floats)
    var tile = scratch.unsafe_ptr()
    var transformed = List[Scalar[F]](unsafe_uninit_length=pixels)
    var waited = 0
    for index in range(count):
        var p = program.unsafe_offset(index * LENGTH)
        var plan = plan_of[N, W](p, times, workers)
        var held = -1
        var units = plan.places * plan.panels
        var tasks = plan.tasks
        var counters = claimed.unsafe_offset(index * (workers + 1) * LINE)
        var done = counters.unsafe_offset(workers * LINE)
        var finished = 0
        var shares = 0 if Int(Atomic[Int64].load(done)) >= tasks else workers
        for offset in range(shares):
            var whose = (member + offset) % workers
            var last = tasks * (whose + 1) // workers
            while True:
                var t = tasks * whose // workers + Int(
                    Atomic[Int64].fetch_add(counters.unsafe_offset(whose * LINE), Int64(1))
                )
                if t >= last:
                    break
                var start = units * t // tasks
                var end = units * (t + 1) // tasks
                if at(p, 0) == CONVOLUTION:
                    convolution[N, W](
                        p,
                        times,
                        plan.h,
                        plan.w,
                        plan.channels,
                        plan.lines,
                        plan.strips,
                        plan.places,
                        plan.by_panel,
                        start,
                        end,
                        images,
                        weights,
                        numbers,
                        tile,
                    )
                elif at(p, 0) == WINOGRAD:
                    held = winograd[N, W](
                        p,
                        times,
                        plan.h,
                        plan.w,
                        plan.channels,
                        plan.tiles,
                        start,
                        end,
                        held,
                        images,
                        weights,
                        numbers,
                        tile,
                        transformed.unsafe_ptr(),
                    )
                elif at(p, 0) == BORDER:
                    for image in range(start, end):
                        border[W](p, times, images, image)
                else:
                    _units[N, W](
                        p, plan, times, start, end, x, result, images, weights, numbers, tile
                    )
                finished += 1
        if finished > 0:
            _ = Atomic[Int64].fetch_add(done, Int64(finished))
        if at(p, AT_TOGETHER) == 0:
            for before in range(waited, index):
                var other = program.unsafe_offset(before * LENGTH)
                _wait(
                    claimed.unsafe_offset((before * (workers + 1) + workers) * LINE),
                    plan_of[N, W](other, times, workers).tasks,
                )
            _wait(done, tasks)
            waited = index + 1
            if timed:
                ends[unsafe_offset=index] = Int64(perf_counter_ns())
    _ = scratch^  # must outlive the pointer into it
    _ = transformed^


def run_program[
    N: Int
](
    times: Int,
    program: Pointer[Int64, _],
    count: Int,
    x: Pointer[Scalar[F], _],
    result: Pointer[mut=True, Scalar[F], _],
    images: Pointer[mut=True, Scalar[F], _],
    weights: Pointer[Scalar[F], _],
    numbers: Pointer[Scalar[F], _],
):
    """Run a program on `times` inputs, with a team of threads if that is worth it."""
    if times == 0:
        return
    comptime W = simd_width_of[F]()
    var last = program.unsafe_offset((count - 1) * LENGTH)
    var timed = at(last, 0) == TIMES
    var lines = count - 1 if timed else count
    var workers = parallelism_level(None)
    var cost = 0
    var pixels = 0
    for index in range(lines):
        var p = program.unsafe_offset(index * LENGTH)
        var plan = plan_of[N, W](p, times, workers)
        cost += plan.cost
        if at(p, 0) == WINOGRAD:
            pixels = max(pixels, pixel_floats[W](plan.tiles, at(p, AT_INPUT + 2)))
    if cost < ALONE:
        workers = 1
    var counters = List[Int64](length=lines * (workers + 1) * LINE, fill=0)
    var claimed = counters.unsafe_ptr()
    var moments = List[Int64](length=lines, fill=0)
    var ends = moments.unsafe_ptr()
    var begin = Int64(perf_counter_ns()) if timed else 0

    def member(
        t: Int
    ) {workers, times, program, lines, claimed, x, result, images, weights, numbers, ends, timed, pixels}:
        run_as[N, W](
            t,
            workers,
            times,
            program,
            lines,
            claimed,
            x,
            result,
            images,
            weights,
            numbers,
            ends,
            timed,
            pixels,
        )

    if workers == 1:
        member(0)
    else:
        in_team(workers, member)
    if timed:
        var to = result.unsafe_offset(at(last, AT_FILTERS))
        for index in range(lines):
            var end = max(begin, ends[unsafe_offset=index])
            to[unsafe_offset=index] = Float32(end - begin)
            begin = end
    _ = counters^
    _ = moments^


@extensibility.register("tmb_image_program")
struct ImageProgram[columns: Int]:
    """Runs a program; `weights` has filters in panels of `columns`, and values per channel."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=F, rank=2, ...],
        workspace: OutputTensor[dtype=F, rank=1, ...],
        x: InputTensor[dtype=F, rank=2, ...],
        weights: InputTensor[dtype=F, rank=1, ...],
        program: InputTensor[dtype=DType.int64, rank=1, ...],
        numbers: InputTensor[dtype=F, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        host_only["tmb_image_program", target]()
        run_program[Self.columns](
            x.dim_size(0),
            program.unsafe_ptr(),
            program.dim_size(0) // LENGTH,
            x.unsafe_ptr(),
            output.unsafe_ptr(),
            workspace.unsafe_ptr(),
            weights.unsafe_ptr(),
            numbers.unsafe_ptr(),
        )
