"""A headless Chromium, driven over the pipe of its DevTools protocol: what a person sees, keys, media, requests.

The protocol: https://chromedevtools.github.io/devtools-protocol/. With `--remote-debugging-pipe` its messages are JSON,
ended by a zero byte, on the file descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

NAMES = "chromium", "chromium-browser", "google-chrome"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
    "--blink-settings=availableHoverTypes=2,primaryHoverType=2,availablePointerTypes=4,primaryPointerType=4",  # a mouse
)  # fmt: skip
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]  # out of the way of 3 and 4
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}


def find_browser():
    """Return the program; skip the test where there is none, but never in CI."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no browser on PATH: {', '.join(NAMES)}")
    return program


class Browser:
    """One Chromium with one page. `requests`, `dialogs` and `errors` are what the page has made so far."""

    def __init__(self) -> None:
        program = find_browser()
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        command = [sys.executable, "-c", LAUNCH, str(read), str(write), program, *FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={self._folder.name}"],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._number, self._left, self._session = 0, b"", None
        self.requests, self.dialogs, self.errors = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._folder.cleanup()

    def call(self, method, **params):
        """Return the result of a command; what the page tells meanwhile is taken in."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._until(lambda told: told.get("id") == self._number)

    def _until(self, wanted):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            line, mark, rest = self._left.partition(b"\0")
            if not mark:
                if select.select([self._in], [], [], 1)[0]:
                    self._left += os.read(self._in, 1 << 20)
                continue
            self._left = rest
            message = json.loads(line)
            self._take(message)
            if wanted(message):
                assert "error" not in message, message
                return message.get("result", message.get("params"))
        raise TimeoutError("the browser did not answer")

    def _take(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
            case "Runtime.exceptionThrown":
                self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "?"))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"])

    def resize(self, width, height=900, *, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path, fragment=""):
        """Open a file; return how many seconds passed until it was drawn."""
        self.go("about:blank")  # else another fragment of the same page would load nothing
        begun = time.monotonic()
        self.go(path.resolve().as_uri() + fragment)
        return time.monotonic() - begun

    def go(self, url):
        self.call("Page.navigate", url=url)
        self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, script):
        """Return what a script gives, awaited, as JSON."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def text(self, selector="body"):
        """Return what a person reads of the first element that fits."""
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, *keys):
        for key in keys:
            code, text = KEYS.get(key, (ord(key.upper()[0]), key))
            both = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **both)
            self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def click(self, selector):
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
