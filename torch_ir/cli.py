"""The command `torch-ir`: extract, info, visualize, run, verify, diff, extract-subgraph.

Exit codes: 0 success; 1 the verification failed or the files differ; 2 an error.
Results go to stdout, as JSON with --json; progress and errors go to stderr.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from rich.console import Console
from rich.text import Text

from torch_ir.compat import pytree
from torch_ir.costs import estimate_cost
from torch_ir.diff import diff_irs
from torch_ir.engines import ATEN
from torch_ir.errors import TorchIRError
from torch_ir.executor import IRExecutor
from torch_ir.files import write_whole
from torch_ir.ir import IR
from torch_ir.limits import Limits
from torch_ir.schema import DTYPES
from torch_ir.serializer import load_ir, save_ir
from torch_ir.specs import UsageError, build_model, parse_inputs, random_inputs
from torch_ir.structure import unflatten
from torch_ir.subgraph import extract_subgraph, record_inputs
from torch_ir.terminal import one_line, printable
from torch_ir.verifier import DEFAULT_TOLERANCE, verify_ir_with_state_dict
from torch_ir.weight_loader import load_weights, weight_files

__all__ = ["main"]

# Names are printed as they are: `models:M:` is not an emoji, and `[4]` is not markup.
_STDERR = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Show a spinner if stderr is a terminal; print the time taken at the end."""
    start = time.perf_counter()
    if _STDERR.is_terminal:
        with _STDERR.status(Text(printable(what))):
            yield
    else:
        yield
    _STDERR.print(f"{printable(what)}: {time.perf_counter() - start:.1f} s")


def _print(as_json: bool, data: dict[str, Any], text: str) -> None:
    if as_json:
        text = json.dumps(_plain(data), ensure_ascii=False, indent=1, allow_nan=False)
    print(printable(text))  # JSON stays valid: an escaped character is inside a string


def _plain(value: Any) -> Any:
    """Make a result valid JSON: infinities, NaN, dtypes and complex numbers become strings."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _keep_sources(output: Path, *sources: Path) -> None:
    """Raise an error if writing `output` would overwrite a file that the command reads."""
    if any(output.exists() and source.exists() and output.samefile(source) for source in sources):
        raise UsageError(f"{output} is an input of this command; choose another --output")


def _extract(args: argparse.Namespace) -> int:
    from torch_ir import extract_ir

    with _working(f"building {args.model} on meta"):
        model = build_model(args.model, "meta")
    specs = args.input
    if not specs:
        if not Path(args.model).is_dir():
            raise UsageError(
                "no inputs given; name the type of each: --input 'float32[1,3,224,224]'"
            )
        specs = ["input_ids=int64[1,16]"]
    inputs, kwargs, dynamic = parse_inputs(specs)
    with _working("extracting"):
        ir = extract_ir(
            model,
            inputs,
            kwargs=kwargs,
            dynamic_shapes=dynamic,
            model_name=args.name,
            strict=args.strict,
            decompose=args.decompose,
        )
    path = Path(args.output or f"{ir.model_name}.json")
    _keep_sources(path, Path(args.model) / "config.json")
    save_ir(ir, path)
    data = {"file": str(path), "bytes": path.stat().st_size, "nodes": len(ir.nodes)}
    _print(args.json, data, f"{path}: {len(ir.nodes)} nodes, {path.stat().st_size} bytes")
    return 0


def describe(ir: IR) -> dict[str, Any]:
    """What `info` prints about an IR."""
    ops = collections.Counter(node.op_type for node in ir.nodes)
    sizes = {meta.name: _numel(meta.shape) for meta in ir.weights}
    return {
        "model_name": ir.model_name,
        "nodes": len(ir.nodes),
        "subgraphs": {name: len(graph.nodes) for name, graph in ir.subgraphs.items()},
        "inputs": [[meta.name, meta.describe()] for meta in ir.graph_inputs],
        "outputs": [[meta.name, meta.describe()] for meta in ir.graph_outputs],
        "symbols": {s.name: [s.min, s.max] for s in ir.symbols.values()},
        "mutations": [[m.kind, m.target] for m in ir.mutations],
        "weights": len(ir.weights),
        "weight_elements": sum(sizes.values()),
        "weight_bytes": sum(sizes[m.name] * DTYPES[m.dtype].itemsize for m in ir.weights),
        "constants": len(ir.constants),
        "constant_bytes": sum(tensor.nbytes for tensor in ir.constants.values()),
        "ops": dict(ops.most_common()),
    }


def _numel(shape: Sequence[int | str]) -> int:
    count = 1
    for size in shape:
        count *= int(size)
    return count


def _info(args: argparse.Namespace) -> int:
    ir = load_ir(args.file)
    data = describe(ir)
    lines = [
        f"{data['model_name'] or args.file}: {data['nodes']} nodes, "
        f"{data['weight_elements']:,} weights in {data['weights']} tensors "
        f"({data['weight_bytes'] / 2**20:,.1f} MiB), {data['constants']} constants"
    ]
    lines += [f"  input   {name}: {kind}" for name, kind in data["inputs"]]
    lines += [f"  output  {name}: {kind}" for name, kind in data["outputs"]]
    lines += [
        f"  size    {name}: {low} to {high or 'any'}"
        for name, (low, high) in data["symbols"].items()
    ]
    lines += [f"  mutates {kind} {target}" for kind, target in data["mutations"]]
    lines += [f"  subgraph {name}: {count} nodes" for name, count in data["subgraphs"].items()]
    lines += [f"{count:7} {op}" for op, count in data["ops"].items()]
    if args.cost:
        from torch_ir.visualize.cost_text import cost_table

        with _working(f"estimating the cost of {len(ir.nodes)} nodes"):
            cost = estimate_cost(ir, _sizes(args))
        data["cost"] = asdict(cost)
        lines += cost_table(cost)
    _print(args.json, data, "\n".join(map(one_line, lines)))
    return 0


def _visualize(args: argparse.Namespace) -> int:
    from torch_ir.visualize import visualize

    path = Path(args.output or Path(args.file).with_suffix(".html"))
    _keep_sources(path, Path(args.file))
    ir = load_ir(args.file)
    with _working(f"drawing {len(ir.nodes)} nodes"):
        visualize(ir, path)
    _print(args.json, {"file": str(path), "bytes": path.stat().st_size}, str(path))
    return 0


def _read_inputs(path: Path, ir: IR) -> list[Any]:
    """Flat inputs from a file that contains one tensor per graph input, by name."""
    tensors = load_weights(path)
    names = [meta.name for meta in ir.graph_inputs]
    if set(tensors) != set(names):
        raise UsageError(f"{path} contains the tensors {sorted(tensors)}; the IR expects {names}")
    return [tensors[name] for name in names]


def _inputs(args: argparse.Namespace, ir: IR) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args.inputs is not None:
        flat = _read_inputs(Path(args.inputs), ir)
    else:
        flat = random_inputs(ir, _sizes(args), args.seed)
    if ir.in_spec is None:
        return tuple(flat), {}
    positional, keyword = unflatten(ir.in_spec, flat)
    return positional, keyword


def _sizes(args: argparse.Namespace) -> dict[str, int]:
    try:
        return {name: int(size) for name, _, size in (s.partition("=") for s in args.size)}
    except ValueError as error:
        raise UsageError(f"--size expects NAME=NUMBER: {error}") from error


def _limits(args: argparse.Namespace) -> Limits | None:
    if args.max_memory is None and args.max_seconds is None:
        return None
    memory = math.inf if args.max_memory is None else args.max_memory * 2**20
    return Limits(memory, math.inf if args.max_seconds is None else args.max_seconds)


def _run(args: argparse.Namespace) -> int:
    if args.output is not None:
        sources = [Path(args.file)]
        for path in filter(None, (args.weights, args.inputs)):
            sources += weight_files(path)
        _keep_sources(Path(args.output), *sources)
    ir = load_ir(args.file)
    positional, keyword = _inputs(args, ir)
    with _working("loading weights"):
        executor = IRExecutor(
            ir,
            weights_path=args.weights,
            device=args.device,
            allow_ops=args.allow_op,
            limits=_limits(args),
            engine=args.engine,
        )
    with _working(f"running {len(ir.nodes)} nodes"):
        result = executor.run(positional, keyword)
    flat = {
        pytree.keystr(path) or "output": leaf
        for path, leaf in pytree.tree_flatten_with_path(result)[0]
    }
    tensors = {n: leaf.contiguous() for n, leaf in flat.items() if isinstance(leaf, torch.Tensor)}
    if args.output is not None:
        content = safetensors.torch.save({n: t.clone() for n, t in tensors.items()})
        write_whole(Path(args.output), content)
    data = {name: _summary(leaf) for name, leaf in flat.items()}
    lines = [f"{name}: {_summary_text(entry)}" for name, entry in data.items()]
    _print(args.json, data, "\n".join(map(one_line, lines)))
    return 0


def _summary(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    entry: dict[str, Any] = {
        "dtype": str(leaf.dtype).removeprefix("torch."),
        "shape": list(leaf.shape),
    }
    if leaf.numel() and not leaf.is_complex():
        wide = leaf.double()
        entry |= {"mean": wide.mean().item(), "min": wide.min().item(), "max": wide.max().item()}
    return entry


def _summary_text(entry: Any) -> str:
    if not isinstance(entry, dict):
        return repr(entry)
    numbers = ", ".join(f"{key} {entry[key]:.6g}" for key in ("mean", "min", "max") if key in entry)
    return f"{entry['dtype']}{entry['shape']} {numbers}".strip()


def _verify(args: argparse.Namespace) -> int:
    ir = load_ir(args.file)
    with _working(f"building {args.model}"):
        torch.manual_seed(args.seed)
        model = build_model(args.model, "cpu")
    if args.weights is not None:
        with _working("loading weights"):
            model.load_state_dict(load_weights(args.weights), strict=False)
            weights = load_weights(args.weights, ir)
    else:
        weights = dict(model.state_dict())
    positional, keyword = _inputs(args, ir)
    with _working("comparing"):
        passed, report = verify_ir_with_state_dict(
            ir,
            weights,
            model,
            positional,
            args.rtol,
            args.atol,
            kwargs=keyword,
            node_by_node=args.node_by_node,
            allow_ops=args.allow_op,
            engine=args.engine,
        )
    _print(args.json, asdict(report), str(report))
    return 0 if passed else 1


def _extract_subgraph(args: argparse.Namespace) -> int:
    path = Path(args.output)
    _keep_sources(path, Path(args.file))
    ir = load_ir(args.file)
    part = extract_subgraph(ir, *args.names)
    if args.save_inputs is not None:
        _keep_sources(Path(args.save_inputs), Path(args.file), path)
        weights = load_weights(args.weights, ir) if args.weights is not None else None
        positional, keyword = _inputs(args, ir)
        with _working(f"running {len(ir.nodes)} nodes"):
            values = record_inputs(ir, part, positional, weights, kwargs=keyword)
        names = [meta.name for meta in part.graph_inputs]
        tensors = {name: torch.as_tensor(v) for name, v in zip(names, values, strict=True)}
        content = safetensors.torch.save({n: t.contiguous().clone() for n, t in tensors.items()})
        write_whole(Path(args.save_inputs), content)
    save_ir(part, path)
    inputs = [[meta.name, meta.describe()] for meta in part.graph_inputs]
    outputs = [[meta.name, meta.describe()] for meta in part.graph_outputs]
    data = {"file": str(path), "nodes": len(part.nodes), "inputs": inputs, "outputs": outputs}
    lines = [f"{path}: {len(part.nodes)} of {len(ir.nodes)} nodes"]
    lines += [f"  input   {name}: {kind}" for name, kind in inputs]
    lines += [f"  output  {name}: {kind}" for name, kind in outputs]
    _print(args.json, data, "\n".join(map(one_line, lines)))
    return 0


def _diff(args: argparse.Namespace) -> int:
    before, after = load_ir(args.before), load_ir(args.after)
    found = diff_irs(before, after, sources=args.sources)
    if args.html is not None:
        from torch_ir.visualize import diff_to_html

        _keep_sources(Path(args.html), Path(args.before), Path(args.after))
        write_whole(Path(args.html), diff_to_html(before, after, found).encode("utf-8"))
    text = "\n".join(one_line(str(change)) for change in found.changes) or str(found)
    _print(args.json, {"changes": [asdict(change) for change in found.changes]}, text)
    return 1 if found else 0


_MODEL_HELP = "package.module:name, or a folder with the config.json of a Hugging Face model"
_FILE_HELP = "IR file (.json)"
_WEIGHTS_HELP = "weight file (.safetensors, .pt, .pth, .bin), index of shards, or a folder"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torch-ir",
        description="Extract, inspect, draw, run, verify and compare graphs of PyTorch models.",
        epilog="Exit codes: 0 success; 1 the verification failed or the files differ; 2 an error.",
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    def add_inputs(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--inputs",
            metavar="FILE",
            help="read the inputs from FILE (.safetensors, .pt), one tensor per input name; "
            "without it they are random",
        )
        made.add_argument(
            "--size",
            action="append",
            default=[],
            metavar="NAME=N",
            help="value of a dynamic size of the random inputs; may be repeated",
        )
        made.add_argument("--seed", type=int, default=0, help="seed of the random inputs")

    def add_allow_op(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--allow-op",
            action="append",
            default=[],
            metavar="OP",
            help="run this op although the allowlist lacks it, such as aten.segment_reduce; "
            "only for files that you trust; may be repeated",
        )

    def add_engine(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--engine",
            default=ATEN,
            metavar="NAME",
            help="what runs the IR: aten (the default), or one that a package offers, such as max "
            "of torch_max_backend",
        )

    extract = command("extract", _extract, "extract a model's graph without its weights")
    extract.add_argument("model", help=_MODEL_HELP)
    extract.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="TYPE",
        help="type of an input, such as float32[1,3,224,224]; NAME=TYPE for a keyword input; "
        "a name in place of a number is a dynamic size; may be repeated",
    )
    extract.add_argument("-o", "--output", help="file to write (default: <model name>.json)")
    extract.add_argument("--name", default="", help="name of the model (default: its class)")
    extract.add_argument("--strict", action="store_true", help="trace with Dynamo")
    extract.add_argument("--decompose", action="store_true", help="decompose to core ATen ops")

    info = command("info", _info, "print a summary of an IR file")
    info.add_argument("file", help=_FILE_HELP)
    info.add_argument(
        "--cost",
        action="store_true",
        help="also print operations, bytes moved, weights and peak activations of each module",
    )
    info.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="with --cost: value of a dynamic size, otherwise a symbol; may be repeated",
    )

    picture = command("visualize", _visualize, "draw the graph of an IR file")
    picture.add_argument("file", help=_FILE_HELP)
    picture.add_argument(
        "-o",
        "--output",
        help="file to write; its suffix selects the format: .html, .mmd, .md, .dot, .json "
        "(default: the IR file with the suffix .html)",
    )

    run = command("run", _run, "run an IR file with weights")
    run.add_argument("file", help=_FILE_HELP)
    run.add_argument("--weights", help=_WEIGHTS_HELP)
    run.add_argument("--device", help="device to run on: cpu, cuda:0, ...")
    run.add_argument("-o", "--output", help="write the results to this .safetensors file")
    run.add_argument(
        "--max-memory", type=int, metavar="MIB", help="stop before the results need more memory"
    )
    run.add_argument("--max-seconds", type=float, metavar="S", help="stop a run that takes longer")
    add_engine(run)
    add_allow_op(run)
    add_inputs(run)

    verify = command("verify", _verify, "compare an IR file with the model it was extracted from")
    verify.add_argument("file", help=_FILE_HELP)
    verify.add_argument("model", help=_MODEL_HELP)
    verify.add_argument("--weights", help=f"{_WEIGHTS_HELP} (default: the weights of the model)")
    for name, kind in (("--rtol", "relative"), ("--atol", "absolute")):
        text = f"{kind} tolerance (default: %(default)s)"
        verify.add_argument(name, type=float, default=DEFAULT_TOLERANCE, help=text)
    verify.add_argument(
        "--node-by-node", action="store_true", help="find the first node whose value differs"
    )
    add_engine(verify)
    add_allow_op(verify)
    add_inputs(verify)

    diff = command("diff", _diff, "compare two IR files; the exit code is 1 if they differ")
    diff.add_argument("before", help=_FILE_HELP)
    diff.add_argument("after", help=_FILE_HELP)
    diff.add_argument("--sources", action="store_true", help="compare source lines too")
    diff.add_argument("--html", metavar="FILE", help="also draw both graphs as one page")

    part = command(
        "extract-subgraph", _extract_subgraph, "write a part of an IR file as an IR file of its own"
    )
    part.add_argument("file", help=_FILE_HELP)
    part.add_argument("names", nargs="+", metavar="NAME", help="a node, or the path of a module")
    part.add_argument("-o", "--output", required=True, help="file to write")
    part.add_argument(
        "--save-inputs",
        metavar="FILE",
        help="run the whole graph and write the inputs that the part gets to FILE (.safetensors)",
    )
    part.add_argument("--weights", help=f"with --save-inputs: {_WEIGHTS_HELP}")
    add_inputs(part)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        return code
    except (TorchIRError, UsageError, OSError, ValueError) as error:
        _STDERR.print(printable(f"torch-ir {args.command}: {error}"), style="red")
        return 2
    except Exception:  # most likely from the model's code; must not look like a failed comparison
        _STDERR.print(printable(traceback.format_exc()))
        return 2
