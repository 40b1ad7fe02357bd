"""What happens in the middle of a view: what a test has set, or a wait at a gate."""

from collections.abc import Callable

from django.http import HttpRequest

from tests.helpers.serving import gates


class Meanwhile:
    """
    A view calls it between two steps. It runs once what a test has set, and otherwise does nothing.

    A request that names a gate in its ``X-Gate`` header waits there (tests/helpers/serving.py).
    """

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None

    def __call__(self, request: HttpRequest) -> None:
        gate = gates.get(request.headers.get("X-Gate", ""))
        if gate is not None:
            gate.wait()
        action, self._action = self._action, None
        if action is not None:
            action()

    def does(self, action: Callable[[], object] | None) -> None:
        """Set what happens the next time; None for nothing."""
        self._action = action


meanwhile = Meanwhile()
