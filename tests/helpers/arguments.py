"""Arguments that the commands which clean refuse."""

from __future__ import annotations

import pytest

WRONG = {
    "a batch of none": (["cleansessions", "--batch-size", "0"], "--batch-size must be from 1 to 1000, not 0"),
    "a negative batch": (["cleansessions", "--batch-size", "-1"], "--batch-size must be from 1 to 1000, not -1"),
    "a huge batch": (["cleansessions", "--batch-size", "1001"], "--batch-size must be from 1 to 1000, not 1001"),
    "a maximum of none": (["cleansessions", "--max-sessions", "0"], "--max-sessions must be 1 or more, not 0"),
    "a negative maximum": (["cleansessions", "--max-sessions", "-5"], "--max-sessions must be 1 or more, not -5"),
    "fewer guests than none": (["cleansessions", "--guests", "-1"], "--guests must be 0 or more, not -1"),
    "guests only what is due": (
        ["cleansessions", "--guests", "0", "--only", "expired"],
        "--guests and --only can't be given together",
    ),
    "guests forever": (
        ["cleansessions", "--guests", "0", "--forever"],
        "--guests and --forever can't be given together",
    ),
    "an unknown kind": (["cleansessions", "--only", "nonsense"], "--only must be expired or excess, not nonsense"),
    "a heartbeat nowhere": (["cleansessions", "--heartbeat", "/nowhere/heart"], "/nowhere/heart can't be written"),
    "check forever": (["cleansessions", "--check", "--forever"], "--check and --forever can't be given together"),
    "dry forever": (["cleansessions", "--dry-run", "--forever"], "--dry-run and --forever can't be given together"),
    "a dry check": (["cleansessions", "--check", "--dry-run"], "--check and --dry-run can't be given together"),
    "no items": (["cleanviewed", "--limit", "0"], "--limit must be 1 or more, not 0"),
    "items for ever, and for a look": (
        ["cleanviewed", "--dry-run", "--forever"],
        "--dry-run and --forever can't be given together",
    ),
    "less than no items": (["cleanviewed", "--limit", "-1"], "--limit must be 1 or more, not -1"),
    "items in batches of none": (["cleanviewed", "--batch-size", "0"], "--batch-size must be from 1 to 1000, not 0"),
}


wrong = pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=WRONG)
