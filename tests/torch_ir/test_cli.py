"""The command line: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.one_call import one_call
from torch_ir import load_ir
from torch_ir.cli import main


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(
        self, x: torch.Tensor, *, bias: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        y = self.fc(x).relu()
        return {"y": y if bias is None else y + bias}


def make_small() -> nn.Module:
    return Small()


TARGET = f"{__name__}:Small"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "small.json"
    assert main(["extract", TARGET, "--input", "float32[rows,4]", "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "small.pt"
    torch.manual_seed(3)
    torch.save(Small().state_dict(), path)
    return path


def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_extract(file: Path) -> None:
    ir = load_ir(file)
    assert ir.model_name == "Small" and ir.graph_inputs[0].is_dynamic
    assert [node.op_type for node in ir.nodes][-1] == "aten.relu.default"


def test_extract_from_a_factory_with_keywords(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "m.json"
    arguments = ["--input", "float32[3,4]", "--input", "bias=float32[2]", "--name", "mine"]
    assert main(["extract", f"{__name__}:make_small", *arguments, "-o", str(path), "--json"]) == 0
    assert output(capsys)["file"] == str(path)
    assert load_ir(path).kwargs_order == ["bias"] and load_ir(path).model_name == "mine"


def save_bert_config(folder: Path) -> None:
    from transformers import BertConfig

    sizes = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
    config = BertConfig(vocab_size=9, num_hidden_layers=1, architectures=["BertModel"], **sizes)
    config.save_pretrained(folder)


def test_extract_from_a_config_folder(tmp_path: Path, capsys: Any) -> None:
    save_bert_config(tmp_path)
    path = tmp_path / "bert.json"
    assert main(["extract", str(tmp_path), "-o", str(path)]) == 0
    assert load_ir(path).model_name == "BertModel"


def test_info(file: Path, capsys: Any) -> None:
    assert main(["info", str(file), "--json"]) == 0
    data = output(capsys)
    assert data["weight_elements"] == 10 and data["weight_bytes"] == 40
    assert data["ops"]["aten.linear.default"] == 1
    assert main(["info", str(file)]) == 0
    assert "aten.linear.default" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".html", ".mmd", ".dot", ".json"])
def test_visualize(file: Path, tmp_path: Path, suffix: str, capsys: Any) -> None:
    path = tmp_path / f"picture{suffix}"
    assert main(["visualize", str(file), "-o", str(path)]) == 0
    assert "linear" in path.read_text(encoding="utf-8")


def test_run(file: Path, weights: Path, tmp_path: Path, capsys: Any) -> None:
    from safetensors.torch import load_file, save_file

    x = torch.randn(5, 4)
    save_file({"x": x}, tmp_path / "in.safetensors")
    arguments = ["--weights", str(weights), "--inputs", str(tmp_path / "in.safetensors")]
    result = tmp_path / "out.safetensors"
    assert main(["run", str(file), *arguments, "-o", str(result), "--json"]) == 0
    assert output(capsys)["['y']"]["shape"] == [5, 2]
    model = Small()
    model.load_state_dict(torch.load(weights))
    torch.testing.assert_close(load_file(result)["['y']"], model(x)["y"])


def test_run_with_random_inputs_of_a_size(file: Path, weights: Path, capsys: Any) -> None:
    (symbol,) = load_ir(file).symbols
    assert main(["run", str(file), "--weights", str(weights), "--size", f"{symbol}=7"]) == 0
    assert "float32[7, 2]" in capsys.readouterr().out
    assert main(["run", str(file), "--weights", str(weights), "--size", "nope=7"]) == 2
    assert "unknown size nope" in capsys.readouterr().err


def test_verify(file: Path, weights: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["verify", str(file), TARGET, "--weights", str(weights), "--json"]) == 0
    assert output(capsys)["is_valid"] is True
    document = file.read_text().replace("aten.relu.default", "aten.neg.default")
    (tmp_path / "bad.json").write_text(document)
    assert main(["verify", str(tmp_path / "bad.json"), TARGET, "--node-by-node"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_diff(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["diff", str(file), str(file)]) == 0
    assert "no difference" in capsys.readouterr().out
    other = tmp_path / "other.json"
    other.write_text(file.read_text().replace("aten.relu.default", "aten.neg.default"))
    assert main(["diff", str(file), str(other), "--json"]) == 1
    (change,) = output(capsys)["changes"]
    assert change["before"] == "aten.relu.default" and change["what"] == "op"


def test_inputs_from_a_file_must_have_the_names(file: Path, weights: Path, capsys: Any) -> None:
    assert main(["run", str(file), "--weights", str(weights), "--inputs", str(weights)]) == 2
    message = "contains the tensors ['fc.bias', 'fc.weight']; the IR expects ['x']"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["extract", "nowhere:Model", "--input", "float32[1]"], "No module named"),
        (["extract", "json:dumps", "--input", "float32[1]"], "json:dumps"),
        (["extract", TARGET], "no inputs given"),
        (["extract", TARGET, "--input", "float99[1]"], "unknown dtype"),
        (["extract", "plain", "--input", "float32[1]"], "expected package.module:name"),
        (["info", "none.json"], "cannot be read"),
        (["run", "none.json"], "cannot be read"),
    ],
)
def test_errors_have_code_2_and_a_reason(arguments: list[str], message: str, capsys: Any) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_python_m_torch_ir(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch_ir", "info", str(file), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["nodes"] >= 2


def test_visualize_does_not_write_over_the_ir(file: Path, tmp_path: Path, capsys: Any) -> None:
    before = file.read_bytes()
    (link := tmp_path / "link.json").symlink_to(file)
    (page := tmp_path / "page.html").write_bytes(before)
    commands: list[list[Path | str]] = [[file, "-o", file], [file, "-o", link], [page]]
    for arguments in commands:
        assert main(["visualize", *map(str, arguments)]) == 2
        assert "is an input of this command" in capsys.readouterr().err
    assert file.read_bytes() == before and page.read_bytes() == before


def test_run_does_not_write_over_what_it_reads(
    file: Path, weights: Path, tmp_path: Path, capsys: Any
) -> None:
    from safetensors.torch import save_file

    shard, index = tmp_path / "model-1.safetensors", tmp_path / "model.safetensors.index.json"
    save_file(torch.load(weights), shard)
    places = dict.fromkeys(torch.load(weights), shard.name)
    index.write_text(json.dumps({"weight_map": places}))
    read = [file, weights, shard, index]
    before = [path.read_bytes() for path in read]
    for given, output in ((weights, file), (weights, weights), (tmp_path, shard), (index, shard)):
        arguments = ["run", str(file), "--weights", str(given), "-o", str(output)]
        assert main(arguments) == 2
        assert "is an input of this command" in capsys.readouterr().err
    assert [path.read_bytes() for path in read] == before
    result = str(tmp_path / "result.safetensors")
    for _ in range(2):  # an earlier result is no source
        assert main(["run", str(file), "--weights", str(tmp_path), "-o", result]) == 0


def test_extract_does_not_write_over_the_config(tmp_path: Path, capsys: Any) -> None:
    save_bert_config(tmp_path)
    path = tmp_path / "config.json"
    before = path.read_bytes()
    assert main(["extract", str(tmp_path), "-o", str(path)]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert path.read_bytes() == before


class Failing(Small):
    def forward(self, x: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        raise RuntimeError("of the model's own")


def test_a_model_that_fails_is_not_the_answer_no(file: Path, capsys: Any) -> None:
    assert main(["verify", str(file), f"{__name__}:Failing"]) == 2
    assert "of the model's own" in capsys.readouterr().err


def test_results_that_json_has_no_word_for(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "odd.json"
    assert main(["extract", f"{__name__}:Odd", "--input", "float32[2]", "-o", str(path)]) == 0
    capsys.readouterr()
    assert main(["run", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["output"]["max"] == "nan"


class Odd(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x * float("nan")


@pytest.mark.parametrize("command", ["extract", "visualize", "run"])
def test_a_folder_that_is_not_there(
    command: str, file: Path, weights: Path, tmp_path: Path, capsys: Any
) -> None:
    target, rest = {
        "extract": (TARGET, ["--input", "float32[2,4]"]),
        "visualize": (str(file), []),
        "run": (str(file), ["--weights", str(weights)]),
    }[command]
    suffix = {"extract": ".json", "visualize": ".dot", "run": ".safetensors"}[command]
    output = tmp_path / "missing" / f"x{suffix}"
    assert main([command, target, *rest, "-o", str(output)]) == 2
    assert f"the folder {output.parent} does not exist" in capsys.readouterr().err


M = Small


def test_names_are_printed_as_they_are(tmp_path: Path, capsys: Any) -> None:
    target = f"{__name__}:M"
    path = str(tmp_path / "m.json")
    assert main(["extract", target, "--input", "float32[2,4]", "-o", path]) == 0
    assert f"building {target} on meta" in capsys.readouterr().err
    assert main(["verify", path, target]) == 0
    assert f"building {target}: " in capsys.readouterr().err


def test_run_with_limits_and_allowed_ops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, lengths = str(tmp_path / "m.json"), torch.tensor([1, 2])
    arguments = {"data": "%0", "reduce": "sum", "lengths": "%1"}
    one_call("aten.segment_reduce.default", torch.ones(3), lengths, **arguments).save(path)
    torch.save({"x0": torch.ones(3), "x1": lengths}, tmp_path / "in.pt")
    command = ["run", path, "--inputs", str(tmp_path / "in.pt")]
    assert main(command) == 2
    assert "--allow-op aten.segment_reduce.default" in capsys.readouterr().err
    assert main([*command, "--allow-op", "aten.segment_reduce"]) == 0
    assert "mean 1.5" in capsys.readouterr().out
    one_call("aten.full.default", size=[2**20], fill_value=1).save(path)
    assert main(["run", path, "--max-memory", "1"]) == 2
    assert "Limits.memory_bytes = 1048576" in capsys.readouterr().err
    assert main(["run", path, "--max-seconds", "60"]) == 0


def test_info_with_costs(file: Path, capsys: Any) -> None:
    (symbol,) = load_ir(file).symbols
    assert main(["info", str(file), "--cost"]) == 0
    printed = capsys.readouterr().out
    assert "peak activations" in printed and f"16*{symbol}" in printed
    assert main(["info", str(file), "--cost", "--size", f"{symbol}=10", "--json"]) == 0
    cost = output(capsys)["cost"]
    assert cost["modules"][""]["flops"] == 160 and cost["nodes"]["linear"]["flops"] == 160
    assert main(["info", str(file), "--cost", "--size", "rows"]) == 2


def test_extract_subgraph(file: Path, weights: Path, tmp_path: Path, capsys: Any) -> None:
    part, inputs = tmp_path / "part.json", tmp_path / "in.safetensors"
    command = ["extract-subgraph", str(file), "fc", "-o", str(part)]
    command += ["--save-inputs", str(inputs), "--weights", str(weights), "--json"]
    assert main(command) == 0
    found = output(capsys)
    assert found["nodes"] == 1 and [name for name, _ in found["inputs"]] == ["x"]
    run = ["run", str(part), "--weights", str(weights), "--inputs", str(inputs)]
    assert main(run) == 0
    assert "float32[4, 2]" in capsys.readouterr().out
    assert main(["extract-subgraph", str(file), "fc", "-o", str(file)]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert main(["extract-subgraph", str(file), "nothing", "-o", str(part)]) == 2
    assert "no node and no module 'nothing'" in capsys.readouterr().err


def test_diff_as_a_page(file: Path, tmp_path: Path, capsys: Any) -> None:
    other, page = tmp_path / "other.json", tmp_path / "diff.html"
    ir = load_ir(file)
    ir.nodes[-1].op_type = "aten.tanh.default"
    ir.save(other)
    assert main(["diff", str(file), str(other), "--html", str(page)]) == 1
    assert "aten.relu.default -> aten.tanh.default" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["diff", str(file), str(other), "--html", str(other)]) == 2
