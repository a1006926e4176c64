"""Drive the pages of `onnxwire view` in Chromium through selenium."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import time
from pathlib import Path

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
HAS_BROWSER = bool(CHROMIUM and DRIVER and os.name == "posix" and importlib.util.find_spec("selenium"))
# In CI a missing browser is an error: skipped tests would go unnoticed.
needs_browser = pytest.mark.skipif(
    not HAS_BROWSER and "CI" not in os.environ, reason="needs Chromium, its driver and selenium"
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,900",
]  # fmt: skip


def start_driver(*more):
    assert CHROMIUM and DRIVER, "install Chromium and its driver (Debian: apt install chromium chromium-driver)"
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, *more]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, Service(DRIVER))


class Page:
    """The page of a model, opened at the overview, or with `at_map` at the map, where the page itself starts."""

    def __init__(self, driver, process, at_map=False):
        self.driver = driver
        self.process = process
        self.address = process.stdout.readline().strip()
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(self.address)
        self.wait(lambda: driver.execute_script("return document.body.dataset.ready"))
        if not at_map and driver.execute_script("return location.hash").startswith("#map"):
            driver.execute_script("location.hash = 'model'")
            self.one("#details .card")

    def wait(self, condition, seconds=30, fail_on_error=True):
        """Wait until a condition returns a true value, and return it.

        Fails after `seconds`, and, if `fail_on_error`, as soon as the page shows an error.
        """
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # The page may remove an element between the search for it and the access to it.
            with contextlib.suppress(WebDriverException):
                found = condition()
                if found:
                    return found
                trouble = [element.text for element in self.all("#trouble:not([hidden])")]
                assert not (fail_on_error and trouble)
            time.sleep(0.05)
        raise AssertionError(f"still false after {seconds} seconds: {self.one('body').text}")

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector, text=""):
        """Wait for an element that contains the text, and return the first."""
        return self.wait(lambda: next((found for found in self.all(selector) if text in found.text), None))

    def texts(self, selector):
        return self.wait(lambda: [found.text for found in self.all(selector)])

    def title(self, text):
        """Wait until the heading of the details is the text: an operator or a name."""
        return self.wait(lambda: text in [found.text for found in self.all("#details .head > *")])

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def search(self, words):
        """Search by keyboard, and wait until the results are listed."""
        self.press("/")
        self.wait(lambda: self.driver.switch_to.active_element.get_attribute("id") == "search")
        self.press(words)
        self.one("#found", "found")

    @property
    def focused(self):
        return self.driver.switch_to.active_element

    def requests(self):
        """Return the addresses of all requests that the browser has sent since the page was opened."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def memory(self):
        """Return the resident memory of the server in MB: in all, and without mapped files."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return [int(values[name].split()[0]) // 1024 for name in ("VmRSS", "RssAnon")]


def key_code(name):
    from selenium.webdriver.common.keys import Keys

    return getattr(Keys, name)
