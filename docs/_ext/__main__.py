"""Write anew what the pages have from the code: ``make docs-pages``."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

# It needs the settings.
from docs._ext import written  # noqa: E402

for path, text in written.outdated().items():
    path.write_text(text, encoding="utf-8")
    print(f"Written: {path.relative_to(written.DOCS.parent)}")
