"""A headless Chromium with a page of ours in it, for the tests of HTML reports."""

import base64
import json
import re
import shutil
import time
import zlib

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None


def missing():
    """Why there is no browser to test with; empty where there is one."""
    if webdriver is None:
        return "no python3-selenium"
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"no {program}"
    return ""


class Browser:
    def __init__(self):
        options = Options()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1360,1000",
                         "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)

    def close(self):
        self.driver.quit()

    def processor_seconds(self):
        """What the page's process has taken of the processor, by all its threads."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ProcessTime")

    def open(self, path, dark=False):
        """Shows the page once its script is done; returns the seconds that took."""
        self.prefer(dark)
        self.driver.get("file://" + path)
        self.until("return document.documentElement.dataset.ready === 'true'", "the page is ready")
        self.settle()
        return self.js("return performance.getEntriesByName('ready')[0].startTime") / 1000

    def prefer(self, dark):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def settle(self):
        """Until what was asked for has been drawn."""
        self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()))")

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, what, seconds=120):
        end = time.monotonic() + seconds
        while not self.js(script):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}; console: {self.console()}")
            time.sleep(0.02)

    def console(self):
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def key(self, *keys):
        """Types into whatever has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def print(self):
        """The page as a PDF."""
        answer = self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        return base64.b64decode(answer["data"])


BLOCK = r'(<script type="[^"]*"(?: data-encoding="(\w+)")? id="%s">)(.*?)(</script>)'


def block(page, name):
    """A data block of a page, parsed."""
    match = re.search(BLOCK % name, page, re.S)
    text = match.group(3)
    if match.group(2) == "deflate":
        text = zlib.decompress(base64.b64decode(text)).decode()
    return json.loads(text)


def with_block(page, name, value):
    """The page with another data block in its place, deflated as large ones are."""
    packed = base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()
    new = f'<script type="text/plain" data-encoding="deflate" id="{name}">{packed}</script>'
    return re.sub(BLOCK % name, lambda _: new, page, flags=re.S)
