"""Take the pictures of the gallery, and write the page that shows them."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from django.utils.html import format_html_join
from playwright.sync_api import sync_playwright
from tqdm import tqdm

from tests.helpers.browsing import CHROMIUM, FLAGS
from tests.helpers.demo import running
from tests.helpers.gallery.pages import PAGES, SITES, Task, tasks
from tests.helpers.gallery.visits import Visit, somebody

WIDTHS = (390, 1280)

HEAD = """<!doctype html>
<meta charset="utf-8">
<title>Gallery</title>
<style>
body {font: 14px sans-serif; background: Canvas; color-scheme: light dark}
section {display: flex; flex-wrap: wrap; gap: 1em}
img {border: 1px solid}
</style>
"""


def file_of(name: str, site: str, look: str, width: int) -> str:
    """Return the name of a picture's file."""
    return "-".join(filter(None, (name, site, look, f"{width}.png")))


def page_of(file: str) -> str:
    """Return which page is in the file; ``""`` for none. The name of one page may begin with that of another."""
    return max((name for name in PAGES if file.startswith(f"{name}-")), key=len, default="")


def take(visit: Visit, site: str, task: Task, folder: Path) -> None:
    """Show the page, and take it in each width."""
    show = PAGES[task.name][1]
    # Before the page is loaded: some themes look at it only then.
    visit.page.emulate_media(color_scheme="dark" if task.look == "dark" else "light")
    visit.page.goto(show) if isinstance(show, str) else show(visit)
    for width in WIDTHS:
        visit.page.set_viewport_size({"width": width, "height": 800})
        # As high as the page: what sticks to the bottom of the window is not in the middle of the picture.
        height = visit.page.evaluate("document.documentElement.scrollHeight")
        visit.page.set_viewport_size({"width": width, "height": height})
        path = folder / file_of(task.name, site, task.look, width)
        visit.page.screenshot(path=path, full_page=True, animations="disabled")


def write_index(folder: Path) -> None:
    """Write the page that shows all pictures in ``folder``, those of a page together."""
    by_page: dict[str, list[tuple[str]]] = {name: [] for name in PAGES}
    for file in sorted(folder.glob("*.png")):
        if name := page_of(file.name):
            by_page[name].append((file.name,))
    picture = '<a href="{0}"><img src="{0}" alt="" loading="lazy" height="360"><br>{0}</a>'
    parts = ((name, format_html_join("\n", picture, files)) for name, files in by_page.items() if files)
    body = format_html_join("\n", "<h2>{}</h2>\n<section>\n{}\n</section>", parts)
    (folder / "index.html").write_text(HEAD + body)


def make(folder: Path, words: Sequence[str] = ()) -> list[str]:
    """Make the pictures in ``folder``, all or those that ``words`` choose. Return what failed."""
    failed: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser:
        for site in SITES:
            if not (todo := tasks(site, words)):
                continue
            settings = f"tests.helpers.site.settings.{SITES[site].settings}"
            with (
                TemporaryDirectory() as directory,
                running(Path(directory), DJANGO_SETTINGS_MODULE=settings) as demo,
                tqdm(total=len(todo), desc=site or "django") as progress,
            ):
                for (who, language), these in groupby(todo, lambda task: (task.who, task.language)):
                    with somebody(browser, demo, who, language) as visit:
                        for task in these:
                            try:
                                take(visit, site, task, folder)
                            except Exception as error:  # Whatever it is, the other pages are seen.
                                reason = str(error).partition("\n")[0]
                                failed.append(f"{task.name} {site} {task.look}: {type(error).__name__} {reason}")
                            progress.update()
    write_index(folder)
    return failed
