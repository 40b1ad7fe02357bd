"""What a test has happen in the middle of a view."""

from __future__ import annotations

from collections.abc import Callable


class Meanwhile:
    """A view calls it between two steps: it does, once, what a test said last, and nothing otherwise."""

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()

    def does(self, action: Callable[[], object] | None) -> None:
        """Have this happen the next time; None for nothing."""
        self._action = action
