"""The HTML viewer in a real browser: what a person sees, clicks and types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.torch_ir.visualize import chromium, graphs
from torch_ir.ir import IR, TensorRef
from torch_ir.visualize import visualize

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="no Chromium or Chrome is installed"
)

Opener = Callable[..., chromium.Page]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    folder = tmp_path_factory.mktemp("browser")
    page = visualize(graphs.mlp(), folder / "mlp.html")
    with chromium.Page(page.as_uri(), folder / "profile") as opened:
        yield opened


@pytest.fixture
def show(browser: chromium.Page, tmp_path: Path) -> Iterator[Opener]:
    """Opens an IR; at the end, the page must have asked for nothing and complained of nothing."""

    def opener(ir: IR, fragment: str = "") -> chromium.Page:
        page = visualize(ir, tmp_path / "model.html")
        browser.go(f"{page.as_uri()}#{fragment}")
        browser.settle()
        return browser

    yield opener
    browser.settle()
    assert [url for url in browser.requests if not url.startswith("file:///")] == []
    assert len(browser.requests) == 1
    assert browser.problems == []


def symbols(page: chromium.Page) -> int:
    found = re.match(r"([\d,]+) of [\d,]+ symbols?", page.text("status"))
    assert found is not None
    return int(found.group(1).replace(",", ""))


def percent(page: chromium.Page) -> int:
    return int(page.text("status").split("·")[-1].strip(" %"))


def middle(page: chromium.Page) -> tuple[float, float]:
    x, y, width, height = page.js(
        "(area => [area.x, area.y, area.width, area.height])"
        "(document.getElementById('graph').getBoundingClientRect())"
    )
    return x + width / 2, y + height / 2


def colours(page: chromium.Page) -> int:
    """How many different colours the canvas shows."""
    return page.js(
        "(canvas => new Set(new Uint32Array(canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size)"
        "(document.getElementById('graph'))"
    )


def drawn_texts(page: chromium.Page) -> list[str]:
    """The texts that the canvas shows, from one more drawing of it."""
    page.js(
        "window.texts = []; for (const kind of ['fillText', 'strokeText']) {"
        " const old = CanvasRenderingContext2D.prototype[kind];"
        " CanvasRenderingContext2D.prototype[kind] = function (text, ...rest) {"
        "  if (kind === 'fillText') window.texts.push(text);"
        "  return old.call(this, text, ...rest); }; }"
    )
    page.press("d")
    page.settle()
    return page.js("window.texts")


def test_the_first_picture(show: Opener):
    page = show(graphs.mlp())
    assert page.js("document.title") == "mlp"
    assert symbols(page) == 7
    assert colours(page) > 20
    statistics = page.text("stats")
    assert "1.07K" in statistics and "4.19 KiB" in statistics and "net.up" in statistics
    assert page.js("document.getElementById('details').hidden")


def test_the_status_counts_the_nodes_that_the_statistics_count(show: Opener):
    page = show(graphs.transformer(2), "open=all")
    nodes = len(graphs.transformer(2).nodes)
    assert page.text("status").startswith(
        f"{nodes + 3} of {nodes + 3} symbols ({nodes} nodes, 2 inputs, 1 output) · "
    )
    assert page.js("document.querySelector('#stats .cards b').textContent") == str(nodes)


def test_the_status_line_leaves_the_graph_free(show: Opener):
    page = show(graphs.mlp())
    box = "(id => document.getElementById(id).getBoundingClientRect())"
    assert page.js(f"{box}('status').top >= {box}('graph').bottom")
    assert page.js(f"{box}('status').bottom <= window.innerHeight")


def test_names_break_between_their_parts(show: Opener):
    """Each line of a long module path starts where a part of the path starts."""
    program = graphs.Program(graphs.tensor("x", 1, 8))
    path = ".".join(["encoder", "layers", "attention_output_projection"] * 3)
    y = program.linear(path, TensorRef("x"), 8, (1, 8))
    page = show(program.ir(y), "select=" + y.name)
    starts = page.js(
        """(() => {
          const found = [];
          for (const cell of document.querySelectorAll('#stats .name, #details dd')) {
            const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode());) {
              const range = document.createRange();
              range.selectNodeContents(node);
              const lines = new Set([...range.getClientRects()].map((area) => area.top));
              if (lines.size > 1) found.push(node.textContent);
            }
          }
          return found;
        })()"""
    )
    assert starts == [], "a part of a name is on two lines"


def test_modules_open_and_close_by_double_click_and_key(show: Opener):
    page = show(graphs.mlp(), "open=0&select=net")
    assert symbols(page) == 4
    page.click(*middle(page), times=2)
    assert symbols(page) == 7
    page.press("Enter")
    assert symbols(page) == 4
    assert "torch" not in page.text("details") and "4 tensors, 1.07K, 4.19 KiB" in page.text(
        "details"
    )


def test_buttons_open_levels(show: Opener):
    page = show(graphs.transformer(2), "open=0")
    counts = [symbols(page)]
    for button in ("more", "more", "all", "none"):
        page.js(f"document.getElementById('{button}').click()")
        page.settle()
        counts.append(symbols(page))
    assert counts[0] == counts[-1] == 8
    assert counts[0] < counts[1] < counts[2] < counts[3] == len(graphs.transformer(2).nodes) + 3


def test_search_by_keyboard_alone(show: Opener):
    page = show(graphs.transformer(3), "open=0")
    page.press("/")
    page.type("softmax layers.1")
    assert page.text("found") == "1 match"
    page.press("Enter")
    details = page.text("details")
    assert (
        "aten.softmax.int" in details
        and "layers.1.attn" in details
        and "float32[s0, 4, 128, 128]" in details
    )
    assert symbols(page) > 8, "the modules around the match were opened"
    page.press("Escape")
    assert page.js("document.activeElement.id") == "graph"
    name = page.js("document.querySelector('#details dd').textContent")
    page.press("ArrowDown")
    below = page.js("document.querySelector('#details dd').textContent")
    page.press("ArrowUp")
    assert page.js("document.querySelector('#details dd').textContent") == name != below


def test_a_search_without_a_match_says_so(show: Opener):
    page = show(graphs.mlp())
    page.press("/")
    page.type("no such thing")
    assert page.text("found") == "0 matches"
    page.press("Enter")
    assert page.js("document.getElementById('details').hidden")


def test_arrows_choose_among_the_matches(show: Opener):
    page = show(graphs.mlp())
    page.press("/")
    page.type("aten.linear")
    page.press("ArrowDown")
    page.press("Enter")
    assert "linear_1" in page.text("details")


def test_details_of_a_node(show: Opener):
    details = show(graphs.mlp(), "select=linear").text("details")
    for fact in (
        "aten.linear.default",
        "net.up",
        "float32[4, 32]",
        "net.up.weight",
        "float32[32, 16]",
        "2.00 KiB",
        "mlp.py:12: return self.up(x)",
        "relu",
    ):
        assert fact in details


def test_following_a_link_in_the_details(show: Opener):
    page = show(graphs.mlp(), "select=linear")
    page.js(
        "[...document.querySelectorAll('#details .list .link')]"
        ".find(button => button.textContent === 'relu').click()"
    )
    page.settle()
    assert page.text("details").startswith("reluaten.relu.default")


def test_an_op_of_the_statistics_is_searched_for(show: Opener):
    page = show(graphs.mlp())
    page.js(
        "[...document.querySelectorAll('#stats .row')]"
        ".find(row => row.textContent.includes('aten.relu')).click()"
    )
    assert page.text("found") == "2 matches"


def test_wheel_zooms_and_drag_moves(show: Opener):
    page = show(graphs.mlp())
    x, y = middle(page)
    before = percent(page)
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-300)
    page.settle()
    assert percent(page) > before * 1.3
    still = page.screenshot()
    page.call(
        "Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1
    )
    page.call(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + 90, y=y + 40, button="left", buttons=1
    )
    page.call(
        "Input.dispatchMouseEvent",
        type="mouseReleased",
        x=x + 90,
        y=y + 40,
        button="left",
        clickCount=1,
    )
    page.settle()
    assert page.screenshot() != still
    assert page.js("document.getElementById('details').hidden"), "a drag selects nothing"


def test_light_and_dark(show: Opener):
    page = show(graphs.mlp(), "theme=dark")
    corner = (
        "[...document.getElementById('graph').getContext('2d')"
        ".getImageData(1, 1, 1, 1).data].slice(0, 3)"
    )
    assert max(page.js(corner)) < 60
    page.press("d")
    assert min(page.js(corner)) > 200


def test_control_flow_is_drawn(show: Opener):
    page = show(graphs.branching(), "open=all")
    assert symbols(page) == 10
    texts = drawn_texts(page)
    assert {"sin", "cos", "true_graph_0", "false_graph_0", "calls"} <= set(texts)


def test_hostile_names_are_text(show: Opener):
    page = show(graphs.hostile(), "open=all&search=m")
    for element, number in (("script", 2), ("img", 0), ("iframe", 0)):
        assert page.js(f"document.querySelectorAll('{element}').length") == number
    for position in range(page.js("document.querySelectorAll('#hits li').length")):
        page.js(f"document.querySelectorAll('#hits li')[{position}].click()")
        page.settle()
        assert page.js("document.querySelectorAll('#details script, #details img').length") == 0
    assert "</script><script>" in page.text("hits")
    assert page.js("document.title").startswith("</script><script>"), (
        "the name as text, not its effect"
    )


def test_the_policy_stops_a_script_that_got_in(show: Opener):
    page = show(graphs.mlp())
    page.js(
        "document.body.append(Object.assign("
        "document.createElement('script'), {textContent: 'window.owned = 1'}))"
    )
    assert page.js("window.owned") is None
    assert any("Content Security Policy" in problem for problem in page.problems)
    page.problems.clear()


@pytest.mark.parametrize(
    "make", [lambda: graphs.transformer(200), lambda: graphs.flat(5000)], ids=["modules", "flat"]
)
def test_5000_nodes_stay_usable(show: Opener, make: Callable[[], IR]):
    """In processor time, so that a loaded machine does not matter; usual are 0.4 s and 0.03 s."""
    page = show(make(), "open=0")
    before = page.cpu_seconds()
    page.js("document.getElementById('all').click()")
    page.settle()
    laid_out = page.cpu_seconds()
    assert symbols(page) >= 5000
    assert laid_out - before < 3
    page.press("0")  # everything on the screen
    x, y = middle(page)
    for _ in range(6):
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-400)
        page.settle()
    assert page.cpu_seconds() - laid_out < 7 * 0.3
    assert colours(page) > 3


def test_the_empty_graph_opens(show: Opener):
    page = show(IR([], [], []))
    assert page.text("status").startswith("0 of 0 symbols (0 nodes)")
