import os
import sys
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

# The people of the demo are models.
from tests.helpers.screenshots import pictures  # noqa: E402

pictures.make(*map(Path, sys.argv[1:2]))
