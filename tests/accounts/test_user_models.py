"""Users whose primary keys are no numbers: the model is fixed for a process, so each kind has one of its own."""

from __future__ import annotations

import pytest

from tests.helpers.running import drive

# Each begins a process and a database anew.
pytestmark = pytest.mark.slow

SETTINGS = "tests.helpers.site.settings.user_models"


# In which partition a session is does not depend on its user: each kind is seen with one number of them. A UUID is
# text to the store; forms and pages read it back.
@pytest.mark.parametrize(
    ("part", "kind", "partitions"),
    [*((part, "text", 4) for part in ("shown", "ended", "protected", "deleted")), ("shown", "uuid", 1)],
    indirect=["partitions"],
)
def test_primary_keys_of_any_kind_work_everywhere(server, part, kind, partitions, tmp_path) -> None:
    changes = {"USER_KEY": kind, "PARTITIONS": str(partitions)}
    drive("user_models", part, settings=SETTINGS, server=server, folder=tmp_path, **changes)


def test_a_primary_key_above_255_bytes_is_refused_at_sign_in_by_an_error_that_says_so(server, tmp_path) -> None:
    changes = {"USER_KEY": "text", "PARTITIONS": "1"}
    drive("user_models", "too_long", settings=SETTINGS, server=server, folder=tmp_path, **changes)
