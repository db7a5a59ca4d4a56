"""A headless Chromium that tells what a page asked of the network and what it said on its console.

Commands go to it through a pipe (its DevTools protocol), so no port is opened.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 60.0

LOW_CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (css) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
    return [255, 255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || e.closest("script, style, svg")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.className} ${walker.currentNode.data.trim().slice(0, 30)}`);
  }
  return low.join("; ");
})()
"""
"""An expression for the texts of a page that have too little contrast with what is behind them."""


class Browser:
    """One tab. ``requests`` are URLs that it asked for, ``complaints`` what stood on its console."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def start(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def open(self, page: Path, width: int, *, dark: bool = False, script: bool = True) -> None:
        self.requests.clear()
        self.complaints.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + _PATIENCE
        while self.value("document.readyState + location.href") != f"complete{page.as_uri()}":
            assert time.monotonic() < deadline, "the page did not load"

    def value(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, file: Path, *, top: int = 0, height: int | None = None) -> None:
        width = self.value("innerWidth")
        clip = {
            "x": 0,
            "y": top,
            "width": width,
            "height": height or self.value("document.body.scrollHeight"),
            "scale": 1,
        }
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(data))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 20)
            assert data, "the browser ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(told["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own; ended with the block."""
    assert CHROMIUM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    flags = "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --disable-extensions"
    command = ["bash", "-c", script, CHROMIUM, *flags.split(), "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(theirs_in)
    os.close(theirs_out)
    tab = Browser(ours_out, ours_in)
    try:
        tab.start()
        yield tab
    finally:
        with suppress(AssertionError, OSError):
            tab._session = None
            tab.call("Browser.close")
        process.kill()
        process.wait()
        os.close(ours_out)
        os.close(ours_in)
