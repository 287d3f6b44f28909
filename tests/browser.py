"""Pages looked at with a real browser: Debian's `chromium`, or another Chromium on the path.

Where there is none, tests are skipped on a developer's machine and fail in CI. The browser lives as long as a test
module: Playwright keeps an event loop running, so such a module has no `async` test.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")

Theme = Literal["light", "dark"]


@dataclass(frozen=True, kw_only=True)
class Tab:
    """One page in a window of its own, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    """Errors and warnings on the console, and exceptions."""
    requests: list[str] = field(default_factory=list)
    """Addresses of everything that was asked for, `data:` and `blob:` left out."""

    def overhang(self) -> int:
        """Pixels by which the page is wider than the window: more than 0 makes it scroll sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def clipped(self) -> list[str]:
        """Texts that are wider than the box that holds them, where the box neither scrolls nor wraps."""
        return list(self.page.evaluate(_CLIPPED))


_CLIPPED = """() => [...document.querySelectorAll("h1, h2, h3, p, li, th, td, dt, dd, a, button, label, summary")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && getComputedStyle(e).display !== "inline")
  .map(e => e.textContent.trim().slice(0, 60))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = "no Chromium is on the path; install Debian's package: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found)
        yield started
        started.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens tabs: `tab(width=390, theme="dark")`; then `tab.page.goto(...)`."""
    opened: list[Tab] = []

    def another(**look: Any) -> Tab:
        opened.append(open_tab(browser, **look))
        return opened[-1]

    yield another
    for each in opened:
        each.page.context.close()


def open_tab(browser: Browser, *, width: int = 1440, theme: Theme = "light", **more: Any) -> Tab:
    """A tab for whoever closes its context, at the latest with the browser."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce", **more
    )
    # A loaded machine is slow; a test that waits for ever is ended by its own limit.
    context.set_default_timeout(120_000)
    new = Tab(page=context.new_page())
    new.page.on("console", lambda message: _note(new, message))
    new.page.on("pageerror", lambda error: new.errors.append(str(error)))
    new.page.on("request", lambda request: _ask(new, request.url))
    return new


def _note(tab: Tab, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        tab.errors.append(message.text)


def _ask(tab: Tab, address: str) -> None:
    if not address.startswith(("data:", "blob:")):
        tab.requests.append(address)
