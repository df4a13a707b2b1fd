"""Measure torch_ir: compared with pytorch-ir 0.2.3 from PyPI, and on large and damaged graphs.

python -m benchmarks.ir [--peer-python PATH] [--rounds 3] [--output docs/ir_benchmarks.md]

1. Against pytorch-ir, which runs in an environment of its own with the same PyTorch; interleaved.
2. A model of the size of Llama-3.1-405B, extracted on meta.
3. Architectures of transformers, from extraction to a verified run.
4. 10,000 damaged files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

PEER = "pytorch-ir==0.2.3"
WORKER = Path(__file__).with_name("ir_worker.py")
TASKS = [["pipeline", "gpt2"], ["pipeline", "resnet50"], ["overhead"], ["memory", "gpt2"]]
TASKS += [["memory", "resnet50"]]

LLAMA_405B: dict[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "use_cache": False,
}


def make_peer(folder: Path) -> Path:
    """An environment with pytorch-ir and this environment's PyTorch; returns its Python."""
    print(f"installing {PEER} into an environment of its own", file=sys.stderr)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = [f"torch=={torch.__version__}", "numpy", "safetensors", PEER]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def run_worker(python: Path, task: list[str]) -> dict[str, float]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-W", "ignore", WORKER, *task],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tempfile.gettempdir(),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{python} {' '.join(task)} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def side_by_side(peer: Path, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """task -> side -> measure -> the least of all rounds."""
    sides = {"torch_ir": Path(sys.executable), "pytorch-ir": peer}
    probes = {name: run_worker(python, ["probe"]) for name, python in sides.items()}
    if probes["torch_ir"]["torch"] != probes["pytorch-ir"]["torch"]:
        raise RuntimeError(f"not the same PyTorch: {probes}")
    if probes["torch_ir"]["module"] == probes["pytorch-ir"]["module"]:
        raise RuntimeError(f"both sides import the same package: {probes}")
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for turn in range(rounds):
        for task in TASKS:
            for name in sorted(sides, reverse=bool(turn % 2)):
                result = run_worker(sides[name], task)
                found.setdefault(" ".join(task), {}).setdefault(name, []).append(result)
                print(f"round {turn + 1}: {' '.join(task)}, {name}: {result}", file=sys.stderr)
    return {
        task: {name: _least(results) for name, results in by_side.items()}
        for task, by_side in found.items()
    }


def _least(results: list[dict[str, float]]) -> dict[str, float]:
    least = {key: min(result[key] for result in results) for key in results[0]}
    if "load_ms" in least:
        least["load_save_ms"] = least["load_ms"] + least["save_ms"]
    if "bare_us" in least:
        for key in ("execute_ir", "executor"):
            least[f"{key}_overhead_us"] = least[f"{key}_us"] - least["bare_us"]
    return least


def extract_405b() -> dict[str, float]:
    """Extract a model of the size of Llama-3.1-405B on meta, in this process."""
    import transformers

    from torch_ir import extract_ir, load_ir

    torch.set_num_threads(1)
    start = time.perf_counter()
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_405B)).eval()
    model = model.to(torch.bfloat16)
    built = time.perf_counter()
    ids = torch.zeros(1, 128, dtype=torch.long, device="meta")
    busy = time.process_time()
    ir = extract_ir(model, (ids,), kwargs={"use_cache": False})
    extracted, busy = time.perf_counter(), time.process_time() - busy
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "llama.json"
        ir.save(path)
        saved = time.perf_counter()
        load_ir(path)
        loaded = time.perf_counter()
        size = path.stat().st_size
    return {
        "parameters_b": sum(p.numel() for p in model.parameters()) / 1e9,
        "nodes": len(ir.nodes),
        "build_s": built - start,
        "extract_s": extracted - built,
        "extract_busy_s": busy,
        "save_s": saved - extracted,
        "load_s": loaded - saved,
        "file_mb": size / 1e6,
        "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def architectures() -> list[tuple[str, str, int, float]]:
    """Family, model, nodes and largest absolute error of each architecture of the tests."""
    from tests.testing.runner import on_meta
    from tests.zoo.architectures import ARCHITECTURES
    from torch_ir import extract_ir, load_ir, verify_ir_with_state_dict

    rows = []
    for architecture in (a for a in ARCHITECTURES if a.no_ir is None):
        torch.manual_seed(1)
        kwargs = architecture.inputs()
        ir = extract_ir(architecture.build("meta"), (), kwargs=on_meta(kwargs))
        with tempfile.TemporaryDirectory() as folder:
            ir.save(path := Path(folder) / "model.json")
            ir = load_ir(path)
        model = architecture.build()
        passed, report = verify_ir_with_state_dict(
            ir, model.state_dict(), model, (), 0.0, 1e-5, kwargs=kwargs
        )
        if not passed:
            raise RuntimeError(f"{architecture.model}: {report}")
        rows.append((architecture.family, architecture.model, len(ir.nodes), report.max_abs_error))
        print(rows[-1], file=sys.stderr)
    return rows


def damaged_files(count: int = 10_000) -> dict[str, float]:
    """Load damaged files; any error but a `SerializationError` ends the benchmark."""
    from tests.torch_ir.test_fuzz import DYNAMIC, EXAMPLE, Model, attack
    from torch_ir import extract_ir
    from torch_ir.serializer import serialize_ir

    text = serialize_ir(extract_ir(Model(), EXAMPLE, dynamic_shapes=DYNAMIC))
    start = time.process_time()
    found = attack(text, count, seed=2)
    return {"count": count, "seconds": time.process_time() - start, **asdict(found)}


ROWS = [
    ("extract GPT-2 (s)", "pipeline gpt2", "extract_s", "{:.2f}"),
    ("extract ResNet-50 (s)", "pipeline resnet50", "extract_s", "{:.2f}"),
    ("save GPT-2 (ms)", "pipeline gpt2", "save_ms", "{:.1f}"),
    ("save ResNet-50 (ms)", "pipeline resnet50", "save_ms", "{:.1f}"),
    ("load GPT-2 (ms)", "pipeline gpt2", "load_ms", "{:.1f}"),
    ("load ResNet-50 (ms)", "pipeline resnet50", "load_ms", "{:.1f}"),
    ("load + save GPT-2 (ms)", "pipeline gpt2", "load_save_ms", "{:.1f}"),
    ("load + save ResNet-50 (ms)", "pipeline resnet50", "load_save_ms", "{:.1f}"),
    ("file GPT-2 (KiB)", "pipeline gpt2", "file_kib", "{:.0f}"),
    ("file ResNet-50 (KiB)", "pipeline resnet50", "file_kib", "{:.0f}"),
    (
        "2,000 nodes, `execute_ir`: overhead per node (µs)",
        "overhead",
        "execute_ir_overhead_us",
        "{:.2f}",
    ),
    (
        "2,000 nodes, `IRExecutor` kept: overhead per node (µs)",
        "overhead",
        "executor_overhead_us",
        "{:.2f}",
    ),
    ("peak memory of a run, GPT-2 (MiB)", "memory gpt2", "peak_mib", "{:.0f}"),
    ("peak memory of a run, ResNet-50 (MiB)", "memory resnet50", "peak_mib", "{:.0f}"),
]


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| | torch_ir | pytorch-ir 0.2.3 | ratio |", "|---|---|---|---|"]
    for label, task, key, form in ROWS:
        ours, peer = results[task]["torch_ir"][key], results[task]["pytorch-ir"][key]
        ratio = f"{peer / ours:.2f} ×" if ours > 0 else ""
        lines.append(f"| {label} | {form.format(ours)} | {form.format(peer)} | {ratio} |")
    return "\n".join(lines)


def page(
    results: dict[str, Any],
    big: dict[str, float],
    zoo: list[tuple[str, str, int, float]],
    damaged: dict[str, float],
    rounds: int,
) -> str:
    bare = results["overhead"]["torch_ir"]["bare_us"] if results else 0.0
    lines = [
        "# torch_ir: measurements",
        "",
        "Written by `python -m benchmarks.ir --rounds "
        f"{rounds} --output docs/ir_benchmarks.md`. One thread, "
        f"{platform.processor() or platform.machine()}, PyTorch {torch.__version__}, "
        f"Python {platform.python_version()}.",
        "",
    ]
    if results:
        lines += [
            "## Compared with pytorch-ir 0.2.3",
            "",
            f"{rounds} interleaved rounds, each side in its own environment and process. Times are "
            "processor times, the shortest of all calls, because other work on the machine can "
            "only add to them. The ratio is pytorch-ir ÷ torch_ir: above 1, torch_ir is better. "
            "GPT-2 (124M, 256 tokens) and ResNet-50 (4 × 224²) are written in plain PyTorch in "
            "`benchmarks/ir_worker.py`. The overhead of a node is the time of a run minus that of "
            f"calling the same ops directly ({bare:.2f} µs each); `execute_ir` includes compiling "
            "the plan.",
            "",
            table(results),
            "",
        ]
    if big:
        lines += [
            "## A Llama-3.1-405B-sized model on meta",
            "",
            f"{big['parameters_b']:.1f}B parameters, {big['nodes']:.0f} nodes, 128 tokens, "
            "bfloat16. Wall times; the model is built from a config of transformers.",
            "",
            "| | |",
            "|---|---|",
            f"| build on meta | {big['build_s']:.1f} s |",
            f"| extract | {big['extract_s']:.1f} s "
            f"({big['extract_busy_s']:.1f} s of processor time) |",
            f"| save | {big['save_s']:.2f} s |",
            f"| load | {big['load_s']:.2f} s |",
            f"| file | {big['file_mb']:.2f} MB |",
            f"| peak RSS of the process | {big['peak_rss_gb']:.2f} GB |",
            "",
        ]
    if zoo:
        families = len({family for family, *_ in zoo})
        lines += [
            f"## {len(zoo)} architectures of transformers, {families} families",
            "",
            "Small configs in float32, extracted on meta, saved, loaded, run and compared with the "
            "model. `pytest tests/torch_ir/test_transformers.py -m ''` does the same.",
            "",
            "| family | model | nodes | largest absolute error |",
            "|---|---|---|---|",
            *(
                f"| {family} | {model} | {nodes} | {error:.1e} |"
                for family, model, nodes, error in zoo
            ),
            "",
        ]
    if damaged:
        lines += [
            "## Damaged files",
            "",
            f"{damaged['count']:,} files with random damage to text or structure "
            f"(`tests/torch_ir/test_fuzz.py`): {damaged['refused']:,} were rejected with a "
            "`SerializationError`, the others were still valid, and there was no other exception. "
            f"All of them took {damaged['seconds']:.1f} s of processor time, the slowest "
            f"{damaged['slowest_s'] * 1e3:.0f} ms; the peak memory of the process grew by "
            f"{damaged['grown_mib']:.1f} MiB.",
            "",
        ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peer-python", type=Path, help="Python that has pytorch-ir already")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-405b", action="store_true")
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--skip-architectures", action="store_true")
    parser.add_argument("--skip-damaged", action="store_true")
    parser.add_argument("--output", type=Path, help="write the page here as well")
    args = parser.parse_args()
    damaged = {} if args.skip_damaged else damaged_files()
    results: dict[str, Any] = {}
    if not args.skip_peer:
        with tempfile.TemporaryDirectory() as folder:
            peer = args.peer_python or make_peer(Path(folder) / "peer")
            results = side_by_side(peer, args.rounds)
    big = {} if args.skip_405b else extract_405b()
    zoo = [] if args.skip_architectures else architectures()
    text = page(results, big, zoo, damaged, args.rounds)
    print(text)
    if args.output is not None:
        args.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
