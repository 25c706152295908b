"""A headless Chromium, asked over its own protocol (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PAUSE = 120  # seconds after which a page is taken for stuck


def program() -> str | None:
    """Return the browser's program, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


_SERIOUS = """axe.run({preload: false, resultTypes: ["violations"]}).then(found => found.violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.help}: ${each.nodes[0].html.slice(0, 120)}`))"""


class Browser:
    """One tab.

    Attributes:
        problems: what the console has complained of since the page was opened.
    """

    def __init__(self, profile: Path) -> None:
        found = program()
        assert found is not None, "there is no Chromium here"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars"]
        self.process = subprocess.Popen(
            [found, *options, "--remote-allow-origins=*", f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.problems: list[str] = []
        self._last = 0
        port = self._port(profile / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            tab = next(each for each in json.load(answer) if each["type"] == "page")
        self.socket = websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=PAUSE, max_size=None)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _port(self, file: Path) -> str:
        for _ in range(10 * PAUSE):
            if file.is_file() and (lines := file.read_text(encoding="utf-8").split()):
                return lines[0]
            time.sleep(0.1)
        raise AssertionError("the browser did not start")

    def ask(self, method: str, **parameters):
        """Return the result of a call of the protocol."""
        self._last += 1
        self.socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            said = json.loads(self.socket.recv())
            if said.get("id") == self._last:
                assert "error" not in said, said
                return said["result"]
            self._note(said)

    def _note(self, said: dict) -> None:
        about = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        if said.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        if said.get("method") == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.problems.append(str([each.get("value") for each in about["args"]]))
        if said.get("method") == "Network.requestWillBeSent" and about["request"]["url"].startswith("http"):
            self.problems.append(f"the page asks the net for {about['request']['url']}")

    def ready(self, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        """Make the window this large and this bright for the page that is opened next, and forget all problems."""
        self.problems.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        """Open a page, and wait until it is loaded and its formulas are drawn."""
        self.ready(width, height, dark)
        self.ask("Page.navigate", url=path.resolve().as_uri())
        loaded = "new Promise(done => document.readyState == 'complete' ? done() : addEventListener('load', done))"
        self.run(loaded)
        self.run("window.MathJax && MathJax.startup ? MathJax.startup.promise.then(() => true) : true")

    def open_served(self, url: str, width: int = 1400, dark: bool = False) -> None:
        """Open a page of a server on this machine, whose own requests are then no problem."""
        self.ready(width, dark=dark)
        self.ask("Page.navigate", url=url)
        self.until(f"location.href == {json.dumps(url)} && document.readyState == 'complete'")

    def until(self, condition: str) -> None:
        """Wait until JavaScript in the page is true."""
        script = f"""new Promise(done => {{ let left = {PAUSE * 20}; const look = () =>
            {condition} ? done(true) : left-- ? setTimeout(look, 50) : done(false); look(); }})"""
        assert self.run(script), f"it did not come true: {condition}"

    def complaints(self) -> list[str]:
        """Return the problems but for requests to this machine's own servers."""
        return [each for each in self.problems if "the page asks the net for http://127.0.0.1" not in each]

    def run(self, script: str):
        """Return the value of JavaScript in the page."""
        said = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write what is seen of the page, or the whole page, as a PNG file."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser."""
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=PAUSE)


def serious_faults(browser: Browser, axe: str) -> list[str]:
    """Return what axe-core, of which `axe` is the text, finds wrong with the page and calls serious."""
    browser.run(f"{axe}; 0")
    return browser.run(_SERIOUS)
