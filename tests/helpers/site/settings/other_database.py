"""The shop with the database of TEST_DATABASE, in JSON: an entry of DATABASES. See ``tests/helpers/databases.py``."""

import json
import os

from testproject.settings import *  # noqa: F403

DATABASES = {"default": json.loads(os.environ["TEST_DATABASE"])}
