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

# The headless shell has no windows and toolbars; with it the tests take half of the CPU time.
HEADLESS_SHELL = shutil.which("chromium-headless-shell")
CHROMIUM, DRIVER = HEADLESS_SHELL or shutil.which("chromium"), shutil.which("chromedriver")
HAS_BROWSER = bool(CHROMIUM and DRIVER and os.name == "posix" and importlib.util.find_spec("selenium"))
# In CI a missing browser is an error: skipped tests would go unnoticed.
needs_browser = pytest.mark.skipif(
    not HAS_BROWSER and "CI" not in os.environ, reason="needs Chromium, its driver and selenium"
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,900",
]  # fmt: skip


def start_driver():
    """Start Chromium, which logs messages of the console and requests, and return its driver."""
    assert CHROMIUM and DRIVER, "install Chromium and its driver (Debian: apt install chromium chromium-driver)"
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS if HEADLESS_SHELL else ["--headless", *FLAGS]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Chrome does not start with the libraries that tests/instrumented.sh loads into Python.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return webdriver.Chrome(options, Service(DRIVER, env=environment))


def stop_driver(driver):
    """Close the browser and its driver. On Debian, `chromium` is a shell script, so `quit` alone would end only the
    script and not the browser."""
    from selenium.common.exceptions import WebDriverException

    with contextlib.suppress(WebDriverException):  # the connection ends before the response
        driver.execute_cdp_cmd("Browser.close", {})
    driver.quit()


# Sets `elements` to all elements that match a selector, and `texts` to their texts ("" for hidden elements). To read
# one text, WebDriver itself would run a script of 50 kB.
VISIBLE_TEXTS = """
const elements = [...document.querySelectorAll(arguments[0])];
const texts = elements.map((element) =>
  element.checkVisibility() ? (element.innerText ?? element.textContent).replaceAll("\u00a0", " ").trim() : "");
"""


class Page:
    """The page of a model in a browser.

    process: `onnxwire view`, whose first line of output is the address. starts_at_map: whether the test starts at the
    map, which the page shows first, or at the overview.
    """

    def __init__(self, driver, process, starts_at_map=False):
        self.driver = driver
        self.process = process
        self.starts_at_map = starts_at_map
        self.address = process.stdout.readline().strip()
        self._open(self.address)

    def reopen(self):
        """Open the page again in the same tab, without stored settings. The tab still stores the key that the server
        exchanged for the token in the address."""
        address = self.address.partition("#")[0]
        if self.driver.current_url.startswith(address):
            # Without this, the browser would only follow a link within the page.
            self.driver.execute_script("localStorage.clear(); history.replaceState(null, '', '/')")
        self._open(address)

    def _open(self, address):
        """Open an address, and forget the logs of the previous page."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)
        self.wait(lambda: self.driver.execute_script("return document.body.dataset.ready"))
        if not self.starts_at_map and self.driver.execute_script("return location.hash").startswith("#map"):
            self.driver.execute_script("location.hash = 'model'")
            self.element("#details .card")

    def wait(self, condition, seconds=30, fail_on_error=True):
        """Wait until a condition returns a true value, and return it.

        Fails after `seconds`, and, if `fail_on_error`, as soon as the page shows an error.
        """
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # The page may remove an element between the search for it and the access to it.
            with contextlib.suppress(WebDriverException):
                result = condition()
                if result:
                    return result
                assert not (fail_on_error and self.elements("#trouble:not([hidden])"))
            time.sleep(0.05)
        page_text = self.driver.execute_script("return document.body.innerText")
        raise AssertionError(f"the condition is still false after {seconds} seconds; the page shows: {page_text}")

    def elements(self, selector):
        """Return the elements that match, without waiting."""
        return self.driver.find_elements("css selector", selector)

    def element(self, selector, text=""):
        """Wait for an element that matches and contains the text, and return the first one."""
        script = VISIBLE_TEXTS + "return elements.find((_, index) => texts[index].includes(arguments[1]))"
        return self.wait(lambda: self.driver.execute_script(script, selector, text))

    def click(self, selector, text=""):
        """Wait for an element that contains the text, and click it; the page may replace it in the meantime."""
        self.wait(lambda: self.element(selector, text).click() is None)  # `click` returns None

    def text(self, selector, text=""):
        """Wait for an element that contains the text, and return its entire visible text."""
        return self.wait(lambda: [visible for visible in self.texts(selector) if text in visible])[0]

    def texts(self, selector):
        """Wait for elements, and return their visible texts."""
        return self.wait(lambda: self.driver.execute_script(VISIBLE_TEXTS + "return texts", selector))

    def wait_for_title(self, text):
        """Wait until a heading of the details equals the text."""
        return self.wait(lambda: text in self.texts("#details .head > *"))

    def press(self, *keys):
        """Send keys to the focused element."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def search(self, words):
        """Search by keyboard, and wait until the results are listed."""
        self.press("/")
        self.wait(lambda: self.focused_element.get_attribute("id") == "search")
        self.press(words)
        self.element("#found", "found")

    @property
    def focused_element(self):
        return self.driver.switch_to.active_element

    def requests(self):
        """Return the addresses of all requests since the page was opened or, if later, since the last call."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def memory(self):
        """Return the resident memory of the server with and without mapped files, in MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return [int(values[name].split()[0]) // 1024 for name in ("VmRSS", "RssAnon")]


def key_code(name):
    """Return selenium's code of a key, such as "ENTER"."""
    from selenium.webdriver.common.keys import Keys

    return getattr(Keys, name)
