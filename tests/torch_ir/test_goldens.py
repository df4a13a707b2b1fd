"""The promise of compatibility: files of every format version are read, and give what they gave."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from tests.torch_ir.golden_files import FOLDER, GOLDENS, MANIFEST, Golden, hashes, run
from tests.torch_ir.roundtrip import save_and_load
from torch_ir import estimate_cost, execute_ir, load_ir
from torch_ir.ir import SCHEMA_VERSION
from torch_ir.schema import json_schema
from torch_ir.visualize import to_html

KEPT: dict[str, Any] = json.loads(MANIFEST.read_text())


def same(expected: Any, actual: Any) -> bool:
    if not isinstance(expected, dict):
        return type(expected) is type(actual) and expected == actual
    pairs = zip(expected["values"], actual["values"], strict=True)
    return (expected["dtype"], expected["shape"]) == (actual["dtype"], actual["shape"]) and all(
        math.isclose(left, right, rel_tol=1e-4, abs_tol=1e-5) for left, right in pairs
    )


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_file_of_any_version_gives_what_it_gave(golden: Golden, tmp_path: Path) -> None:
    ir = load_ir(FOLDER / f"{golden.name}.json")
    expected, actual = KEPT[golden.name]["result"], run(ir, golden)
    assert len(expected) == len(actual)
    assert all(map(same, expected, actual))
    again = save_and_load(ir, tmp_path)  # in the newest version
    assert all(map(same, expected, run(again, golden)))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_file_of_any_version_can_be_drawn_and_counted(golden: Golden) -> None:
    ir = load_ir(FOLDER / f"{golden.name}.json")
    assert to_html(ir).startswith("<!DOCTYPE html>")
    assert estimate_cost(ir).unknown == {}


def test_goldens_are_never_written_again() -> None:
    assert KEPT.keys() == {golden.name for golden in GOLDENS}
    assert {name: hashes(name) for name in KEPT} == {
        name: entry["files"] for name, entry in KEPT.items()
    }


def test_there_are_goldens_of_each_version() -> None:
    versions = {json.loads((FOLDER / f"{n}.json").read_text())["schema_version"] for n in KEPT}
    assert versions == set(range(1, SCHEMA_VERSION + 1))


def fields_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(fields_of, value.values())) if value else set()
    return set().union(*map(fields_of, value)) if isinstance(value, list) and value else set()


def test_the_goldens_of_the_newest_version_have_every_field() -> None:
    """A field that no golden has could be dropped without a test that notices."""
    schema = json_schema()
    documents = [json.loads((FOLDER / f"{name}.json").read_text()) for name in KEPT]
    newest = [d for d in documents if d["schema_version"] == SCHEMA_VERSION]
    for document in newest:
        jsonschema.Draft202012Validator(schema).validate(document)
    found = set().union(*map(fields_of, newest))
    trees = {"const", "tuple", "list", "dict", "namedtuple", "ordered", "type"}
    extra = {"aliases", "persistent"}
    wanted = {*schema["properties"], *schema["$defs"]["node"]["properties"], *trees, *extra}
    assert wanted - found == {"module_type"}, "module_type: only if one path has two classes"


def test_a_newer_version_is_refused_with_its_number(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "v1_control.json").read_text())
    document["schema_version"] = SCHEMA_VERSION + 1
    path = tmp_path / "newer.json"
    path.write_text(json.dumps(document))
    with pytest.raises(Exception, match=f"schema_version is {SCHEMA_VERSION + 1}; .* reads 1 to"):
        load_ir(path)


def test_the_first_golden_still_gives_its_numbers() -> None:
    """Kept beside the manifest since the first release."""
    ir = load_ir(FOLDER / "v1_features.json")
    expected = json.loads((FOLDER / "expected_v1_features.txt").read_text())
    weights = {
        ir.weight_name_mapping[meta.name]: torch.linspace(
            -1, 1, int(torch.tensor(meta.shape).prod())
        ).reshape([int(size) for size in meta.shape])
        for meta in ir.weights
    }
    result = execute_ir(ir, (torch.arange(6.0).reshape(2, 3),), weights)
    for name, values in expected.items():
        torch.testing.assert_close(result[name].flatten(), torch.tensor(values))
