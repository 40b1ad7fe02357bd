"""
Make the pictures of the documentation: ``make screenshots``, or ``python -m tests.helpers.screenshots [FOLDER]``.

They are taken in a demo of their own with Chromium. The times in them are those of the day on which they are made. What
a picture says to press has a ring, which is drawn; the rest is the page as it is.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageChops
from playwright.sync_api import Browser, FloatRect, Locator, Page, Playwright, sync_playwright

if __name__ == "__main__":
    import django

    # The people of the demo are models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()

from testproject.https import SOFTWARE_KEYS
from testproject.people import CHROME_MAC, PASSWORD, SAFARI_IPHONE
from tests.helpers.browsing import CHROMIUM, FLAGS, LIST, NO_BROWSER, sign_in
from tests.helpers.demo import Demo, running
from tests.helpers.errands import ERRANDS, OpenBrowser, Step
from tests.helpers.gallery.visits import OWN, PASSWORDS
from tests.helpers.items import LIST as MOST_VIEWED
from tests.helpers.running import wait_until
from tests.helpers.site.addresses import OFFICE
from tests.project.docs.pages import DOCS, steps_of

SETTINGS = "pictures"

WIDTH, HEIGHT = 1040, 700
"""Of a window. A page of the documentation is two thirds as wide: letters can still be read."""

HIGHER = 860
"""Of the window of a picture of its own: a list shows more rows."""

PHONE = 390
"""The width of a phone. Its window is as high as that of the list: the README shows them beside each other."""

MARGIN = 2

COLORS = 128
"""Pages have few colours. A picture of so many takes a third of the bytes."""

RING = "outline: 3px solid #d6006c; outline-offset: 3px"


def show_session(page: Page) -> None:
    page.goto(f"{LIST}?q=kavya")
    page.goto(page.locator(f'#result_list a[href*="{LIST}"][href*="/change/"]').first.get_attribute("href") or "")


PICTURES: dict[str, Callable[[Page], object]] = {
    "online-sessions": lambda page: page.goto(LIST),
    "session": show_session,
    "most-viewed": lambda page: page.goto(MOST_VIEWED),
}
"""Each picture of its own, with what an administrator does to see it."""

WHOLE = ("session",)
"""Pictures of the whole page. The others show what is seen in a window."""

ON_A_PHONE = "your-devices"
"""The page of a shopper who has signed in at a desk, too."""

BOUND = "device-bound"
"""The browser of a session that is bound to its device, with the mark of that: it stands within a line."""


@contextmanager
def browsers(browser: Browser, demo: Demo) -> Iterator[OpenBrowser]:
    """Give what opens browsers, and sign out in all of them at the end: no list has sessions of pictures before."""
    opened: list[Page] = []

    def open_browser(who: str = "", *, address: str = OFFICE, user_agent: str = CHROME_MAC) -> Page:
        context = browser.new_context(
            base_url=demo.url,
            viewport={"width": PHONE, "height": HIGHER}
            if user_agent == SAFARI_IPHONE
            else {"width": WIDTH, "height": HEIGHT},
            reduced_motion="reduce",
            user_agent=user_agent,
            extra_http_headers={"X-Forwarded-For": address},
        )
        # The admin's list of models takes a quarter of the width.
        context.add_init_script("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        context.set_default_timeout(30_000)
        page = context.new_page()
        opened.append(page)
        if who:
            sign_in(page, who, PASSWORDS.get(who, PASSWORD))
        return page

    yield open_browser
    for page in opened:
        page.goto("/")
        if (button := page.get_by_role("button", name="Sign out")).count():
            button.click()
        page.context.close()


def without_empty_rows(picture: Image.Image) -> Image.Image:
    """Cut off the rows at the end that are all like the last one, but for a margin."""
    last = picture.crop((0, picture.height - 1, picture.width, picture.height)).resize(picture.size)
    box = ImageChops.difference(picture, last).getbbox()
    return picture.crop((0, 0, picture.width, min(picture.height, box[3] + 24))) if box else picture


def save(page: Page, path: Path, *, press: Locator | None = None, height: int = HEIGHT, whole: bool = False) -> None:
    """Save a picture of the page: what is seen of it and is not empty, down to what is pressed, or the whole."""
    if press:
        press.evaluate(f"element => element.style.cssText += ';{RING}'")
        box = press.bounding_box() or {"y": 0, "height": 0}
        height = max(height, int(box["y"] + box["height"] + 40))
    taken = take(page)
    if not whole:
        taken = without_empty_rows(taken.crop((0, 0, taken.width, min(height, taken.height))))
    write(taken, path)


def take(page: Page, clip: FloatRect | None = None) -> Image.Image:
    """Return a picture of the whole page, or of a part of it."""
    taken = page.screenshot(full_page=True, animations="disabled", clip=clip)
    return Image.open(io.BytesIO(taken)).convert("RGB")


def write(taken: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    taken.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def name_of(element: Locator) -> str:
    """Return what is written on a link or a button."""
    return " ".join((element.inner_text() or element.get_attribute("value") or "").split())


def run_errand(name: str, open_browser: OpenBrowser, folder: Path) -> None:
    """Do an errand, with a picture of each step. What a step presses must be what the documentation says."""
    steps: Iterator[Step] = ERRANDS[name](open_browser)
    for number, (step, told) in enumerate(zip(steps, steps_of(name), strict=True), 1):
        if step.press and f"*{name_of(step.press)}*" not in told.text:
            sys.exit(f"Error: step {number} of {name} presses {name_of(step.press)!r}. Its text says: {told.text}")
        save(step.page, folder / "errands" / f"{name}-{number}.png", press=step.press)
        if step.press:
            with step.page.expect_navigation():
                step.press.click()


def take_bound(playwright: Playwright, folder: Path) -> None:
    """Make the picture of the mark of a bound session. Browsers bind sessions by HTTPS only: it takes another demo."""
    with (
        TemporaryDirectory() as directory,
        running(Path(directory), HTTPS="1", DJANGO_SETTINGS_MODULE=f"tests.helpers.site.settings.{SETTINGS}") as demo,
    ):
        [trusted] = re.findall(r"--ignore-certificate-errors-spki-list=(\S+)", demo.output.read_text())
        # The requests by which a browser binds a session have its own user agent, and none of a context.
        more = [f"--ignore-certificate-errors-spki-list={trusted}", f"--user-agent={CHROME_MAC}"]
        args = [*FLAGS, *more, f"--enable-features={SOFTWARE_KEYS}"]
        with (
            playwright.chromium.launch(executable_path=CHROMIUM, args=args) as browser,
            browsers(browser, demo) as open_browser,
        ):
            page = open_browser("admin")
            wait_until(lambda: any(each.get("name") == "sessionid_proof" for each in page.context.cookies()))
            page.goto(LIST)
            mark = page.locator("#result_list .redsess-bound").first
            parts = [mark.locator("xpath=preceding-sibling::span").bounding_box(), mark.bounding_box()]
            write(take(page, around(*filter(None, parts))), folder / f"{BOUND}.png")


def around(*boxes: FloatRect) -> FloatRect:
    """Return the box that all of these are in, with a margin."""
    left, top = min(box["x"] for box in boxes) - MARGIN, min(box["y"] for box in boxes) - MARGIN
    right = max(box["x"] + box["width"] for box in boxes) + MARGIN
    bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def take_all(browser: Browser, demo: Demo, folder: Path) -> None:
    """Make all other pictures: each as ``<name>.png``, and those of errands in a folder of their own."""
    for name, show in PICTURES.items():
        with browsers(browser, demo) as open_browser:
            page = open_browser("admin")
            show(page)
            save(page, folder / f"{name}.png", height=HIGHER, whole=name in WHOLE)
    with browsers(browser, demo) as open_browser:
        page = open_browser("hugo", address="2001:db8:7:31::9", user_agent=SAFARI_IPHONE)
        page.goto(OWN)
        save(page, folder / f"{ON_A_PHONE}.png", height=HIGHER)
    for name in ERRANDS:
        with browsers(browser, demo) as open_browser:
            run_errand(name, open_browser, folder)


def make(folder: Path = DOCS) -> None:
    """Make all pictures in ``folder``, with a browser and a demo of their own."""
    if CHROMIUM is None:
        sys.exit(f"Error: {NO_BROWSER}")
    with (
        TemporaryDirectory() as directory,
        running(Path(directory), DJANGO_SETTINGS_MODULE=f"tests.helpers.site.settings.{SETTINGS}") as demo,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser,
    ):
        take_all(browser, demo, folder)
        take_bound(playwright, folder)


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:2]))
