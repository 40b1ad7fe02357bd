"""Sphinx's settings for the documentation. ``make docs`` builds it, with warnings as errors."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import django

# The names that the reference describes are imported, which needs a Django site. No server is asked.
sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

from django_redsess.documentation import SITE  # noqa: E402

project = "django-redsess"
author = "the django-redsess authors"
project_copyright = f"2026, {author}"
release = version_of("django-redsess")

extensions = ["docs._ext.links", "docs._ext.objects", "docs._ext.pictures"]

html_theme = "furo"
html_title = "django-redsess"
# Each page names its address on the site, so that search engines know which of several copies to show.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", SITE)
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_theme_options = {
    # Each page has links to its source: to read it on GitHub, and to change it there.
    "source_repository": "https://github.com/django-redsess/django-redsess/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"color-brand-primary": "#0c4b33", "color-brand-content": "#0a6847"},
    "dark_css_variables": {"color-brand-primary": "#9fdcc0", "color-brand-content": "#7fd1ac"},
}
# Guides come first.
html_search_scorer = str(Path(__file__).parent / "_ext" / "search.js")
html_copy_source = False
html_show_sphinx = False
