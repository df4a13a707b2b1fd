"""Every architecture of the zoo; torch_ir's tests take those that torch.export traces."""

from __future__ import annotations

from tests.zoo.audio import AUDIO
from tests.zoo.multimodal import MULTIMODAL
from tests.zoo.spec import Architecture
from tests.zoo.text import TEXT
from tests.zoo.vision import VISION

ARCHITECTURES: list[Architecture] = [*TEXT, *VISION, *AUDIO, *MULTIMODAL]
