"""A real browser for tests: Chromium or Chrome, driven over its debugging pipe, no driver package needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

Look = Literal["light", "dark", "print"]
LOOKS: tuple[Look, ...] = get_args(Look)
LAYOUT_CHECK = Path(__file__).with_name("layout_check.js").read_text("utf-8")
#: A name that would run a script, and ask for an address, where it is not shown as text.
ATTACK = (
    '<img src=http://127.0.0.1:9/x onerror="window.attacked=1"></script><script>window.attacked=1</script>'
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


def find_browser() -> str | None:
    """Path of an installed browser that speaks the protocol, `BACO_BROWSER` first."""
    for name in (os.environ.get("BACO_BROWSER", ""), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    return None


class Browser:
    """One page of a headless browser; `requests` and `problems` collect what it did and complained of."""

    def __init__(self, program: str, profile: Path, width: int = 1300, height: int = 1000) -> None:
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._number, self._buffer = 0, b""
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        # the browser expects its pipe at descriptors 3 and 4: move ours out of the way first
        child_read, child_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (down_read, up_write))

        def place_pipes() -> None:
            os.dup2(child_read, 3)
            os.dup2(child_write, 4)

        self._process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=place_pipes,
            env={**os.environ, "HOME": str(profile)},
        )
        for fd in (down_read, up_write, child_read, child_write):
            os.close(fd)
        self._to, self._from = down_write, up_read
        self._session: str | None = None
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.look(width, height)

    def look(self, width: int, height: int = 1000, *, look: Look = "light") -> None:
        """The window's size, and what the reader prefers: light, dark, or to print (which is always light)."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look == "dark" else "light"}
        media = "print" if look == "print" else "screen"
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def layout_problems(self) -> list[str]:
        """What is wrong with the page as it looks now, in sentences (tests/layout_check.js)."""
        # what answers to another window or look does so a moment later
        self.evaluate("new Promise((go) => setTimeout(() => requestAnimationFrame(go), 300))")
        found = self.evaluate(LAYOUT_CHECK)
        assert found["labels"] > 10, "the page shows hardly any text"
        return list(found["problems"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Result of one command; events that come meanwhile are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline - time.monotonic())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser gave no answer" if not ready else "the browser ended")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, data = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = data["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
            self.problems.append(data["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in data["args"]))

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression in the page (promises are awaited)."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 30.0) -> Any:
        """The first truthy value of an expression. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise TimeoutError(f"never true: {expression}; problems so far: {self.problems}")

    def open(self, path: Path, address: str = "") -> None:
        """Show a file of the disk, at an address within it (`#...`)."""
        if address:  # or the browser would stay on a page that it shows already
            self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.resolve().as_uri() + address)
        self.wait_for("document.readyState === 'complete'")

    def click(self, x: float, y: float) -> None:
        """A click of the mouse at a place of the window."""
        for kind, buttons in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            button = "none" if kind == "mouseMoved" else "left"
            place = {"x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **place)
            time.sleep(0.15)  # the plots notice what is under the mouse a moment later

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page, for looking at while working on it."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        for fd in (self._to, self._from):
            os.close(fd)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
