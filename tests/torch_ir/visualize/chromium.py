"""A headless Chromium driven through its debugging pipe, with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe", "--disable-dev-shm-usage",
)  # fmt: skip

ERRORS = frozenset({"assert", "error", "warning"})
"""Kinds of console messages that count as problems of the page."""

DRAWN = "document.getElementById('status')?.textContent.includes('drawn')"
"""The viewer has drawn its first picture."""


def find() -> str | None:
    """Path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One page in its own browser process. Use as a context manager."""

    def __init__(
        self,
        url: str,
        profile: Path,
        *,
        size: tuple[int, int] = (1400, 900),
        ready: str = DRAWN,
    ) -> None:
        binary = find()
        assert binary is not None
        read_end, to_browser = os.pipe()
        self.from_browser, write_end = os.pipe()
        self.to_browser = to_browser
        # The pipe's ends must be file descriptors 3 and 4 of the browser.
        shell = f'exec "$@" 3<&{read_end} 4>&{write_end}'
        command = [
            "bash",
            "-c",
            shell,
            "bash",
            binary,
            *FLAGS,
            f"--window-size={size[0]},{size[1]}",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            command,
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self.buffer = b""
        self.count = 0
        self.session: str | None = None
        self.requests: list[str] = []
        self.problems: list[str] = []
        try:
            self._attach(size)
            self.go(url, ready)
        except BaseException:
            self._end()
            raise

    def _attach(self, size: tuple[int, int]) -> None:
        target = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(20)
        finally:
            self._end()

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)

    def go(self, url: str, ready: str = DRAWN) -> None:
        """Load a page anew, and wait until it is `ready`, an expression in the page."""
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.problems.clear()
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && {ready}")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events on the way are noted."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(60)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser was silent for {seconds} s")
            chunk = os.read(self.from_browser, 1 << 20)
            if not chunk:
                raise EOFError("the browser closed its pipe")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:600])
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ERRORS:
            self.problems.append(json.dumps(params["args"])[:600])

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self, element: str) -> str:
        return self.js(f"document.getElementById({json.dumps(element)}).textContent")

    def wait(self, condition: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not self.js(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never came true: {condition}")
            time.sleep(0.02)

    def cpu_seconds(self) -> float:
        """Processor time of the page's scripts so far; what other processes do is not in it."""
        self.call("Performance.enable", timeDomain="threadTicks")
        metrics = {
            item["name"]: item["value"] for item in self.call("Performance.getMetrics")["metrics"]
        }
        return metrics["ScriptDuration"]

    def settle(self) -> None:
        """Wait until two more pictures were drawn."""
        self.js(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def click(self, x: float, y: float, times: int = 1) -> None:
        for number in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call(
                    "Input.dispatchMouseEvent",
                    type=kind,
                    x=x,
                    y=y,
                    button="left",
                    clickCount=number,
                )
        self.settle()

    def press(self, key: str, text: str = "") -> None:
        codes = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Backspace": 8}
        shared = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            text=text or (key if len(key) == 1 else ""),
            **shared,
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)
        self.settle()

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
