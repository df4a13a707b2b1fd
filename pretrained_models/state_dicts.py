"""State dicts from a URL, a file or a folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file


def load(place: str) -> dict[str, torch.Tensor]:
    """A state dict: `https://...pth`, a `.safetensors` or `.pth` file, or a folder with one."""
    if place.startswith(("https://", "http://")):
        return torch.hub.load_state_dict_from_url(place, map_location="cpu", weights_only=True)
    path = Path(place)
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix in (".safetensors", ".pth", ".bin"))
        if len(files) != 1:
            raise FileNotFoundError(
                f"{path} must contain exactly one file of weights (.safetensors, .pth or .bin); "
                f"it contains {len(files)}"
            )
        path = files[0]
    if path.suffix == ".safetensors":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)
