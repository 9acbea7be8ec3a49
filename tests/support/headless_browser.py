"""A headless Chromium that opens pages at a given width, controlled over a pipe.

Only the standard library is needed: the DevTools protocol is JSON messages that end with a zero
byte, which Chromium reads from descriptor 3 and writes to descriptor 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

EXECUTABLES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HINT = "expected a Chromium, got none: install it (Debian: apt-get install chromium-headless-shell)"
TIMEOUT = 60.0


def find_browser() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in EXECUTABLES if (path := shutil.which(name))), None)


class Browser:
    """One browser process with one tab; usable as a context manager."""

    def __init__(self) -> None:
        executable = find_browser()
        if executable is None:
            raise FileNotFoundError(HINT)
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        inside_read, self.write_end = os.pipe()
        self.read_end, inside_write = os.pipe()
        options = [
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]
        options += ["--disable-background-networking", "--no-first-run", "--hide-scrollbars"]
        if os.getuid() == 0:  # Chromium's sandbox does not work for root
            options.append("--no-sandbox")
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$0" "$@" 3<&{inside_read} 4>&{inside_write}',
                executable,
                *options,
                f"--user-data-dir={self.profile.name}",
            ],
            pass_fds=(inside_read, inside_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inside_read)
        os.close(inside_write)
        self.buffer = b""
        self.last_id = 0
        self.session: str | None = None
        self.requests: list[str] = []  # addresses that pages loaded
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = found["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError(f"Chromium did not answer within {TIMEOUT:.0f} s")
            part = os.read(self.read_end, 1 << 16)
            if not part:
                raise ConnectionError("Chromium closed its pipe")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if answer.get("method") == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        return answer

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        self.last_id += 1
        message: dict[str, Any] = {"id": self.last_id, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while (answer := self._message(deadline)).get("id") != self.last_id:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def resize(self, width: int, height: int = 900) -> None:
        """Sets the size of the page in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, address: str) -> None:
        """Opens a page and waits until it is loaded."""
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + TIMEOUT
        while self._message(deadline).get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']['text']}")
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Writes a PNG of the visible page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Ends the browser."""
        os.close(self.write_end)
        os.close(self.read_end)
        self.process.terminate()
        self.process.wait(timeout=TIMEOUT)
        self.profile.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
