"""What a batch may be."""

from __future__ import annotations

import pytest

from django_redsess import cleaning

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("batch_size", [0, -1, 1001])
def test_a_batch_that_is_none_is_a_clear_error(batch_size: int) -> None:
    with pytest.raises(ValueError, match="A batch has 1 to 1000 sessions"):
        list(cleaning.expired(batch_size=batch_size))
