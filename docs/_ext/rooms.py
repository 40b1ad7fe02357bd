"""
A picture of the rooms: the layers that import-linter checks, from top to bottom, and who imports whom.

Both come from the code. By hand is only how far to the right each stands: a test says where an arrow would go through
a box.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from docs._ext import svg

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "django_redsess"
PYPROJECT = str(ROOT / "pyproject.toml")

# In boxes, from the left.
PLACES = {
    "apps": 1.9,
    "urls": 0.8, "admin": 4.3, "management": 3.2, "templatetags": 5.8,
    "views": 0.8, "checks": 2.5,
    "models": 5.0,
    "querysets": 4.85,
    "accounts": 1.75, "forms": 0.4,
    "middleware": 2.35, "pytest_plugin": 5.8,
    "cluster": 0.2, "backend": 3.35, "answering": 2.0,
    "cleaning": 4.4,
    "online": 1.2, "viewed": 4.85,
    "session": 3.4, "testing": 5.9,
    "transport": 3.6,
    "signals": 2.0, "exceptions": 3.0, "conf": 4.0,
}  # fmt: skip

ACROSS, DOWN = 118.0, 58.0
WIDTH, HEIGHT = 96.0, 28.0
LEFT = 72.0
SPREAD = 18.0


def layers(room: str = PACKAGE.name) -> list[list[str]]:
    """Return the layers of the package or of a room, from the top, as import-linter is told them."""
    contracts = tomllib.loads(Path(PYPROJECT).read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [found] = [contract for contract in contracts if contract.get("containers") == [room]]
    return [layer.split(" | ") for layer in found["layers"]]


@cache
def imports() -> Mapping[str, set[str]]:
    """Return what each room and public module imports of the others, but for what only type checkers import."""
    found: dict[str, set[str]] = {name: set() for layer in layers() for name in layer}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if name in found:
            found[name] |= set(_imported(ast.parse(path.read_text(encoding="utf-8")))) - {name}
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module == PACKAGE.name:
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and (child.module or "").startswith(f"{PACKAGE.name}."):
            yield (child.module or "").split(".")[1]
        yield from _imported(child)


def arrows() -> list[tuple[str, str]]:
    """Return who imports whom, without the arrows that follow from two others."""
    direct = imports()

    def reached(name: str) -> set[str]:
        return direct[name].union(*map(reached, direct[name]))

    return sorted(
        (name, other)
        for name, others in direct.items()
        for other in others
        if not any(other in reached(between) for between in others - {other})
    )


def is_room(name: str) -> bool:
    """Tell whether ``name`` is a folder, and not a single module."""
    return (PACKAGE / name).is_dir()


def spots() -> dict[str, tuple[float, float]]:
    """Return the middle of each box."""
    return {
        name: (LEFT + PLACES[name] * ACROSS, HEIGHT + row * DOWN)
        for row, layer in enumerate(layers())
        for name in layer
    }


def lines() -> dict[tuple[str, str], tuple[float, float, float, float]]:
    """Return where each arrow begins and ends. Those of one box lie side by side."""
    at, drawn = spots(), arrows()

    def beside(name: str, others: list[str], other: str) -> float:
        x, y = at[name]
        # By their slope, so that they do not cross right at the box.
        others = sorted(others, key=lambda each: (at[each][0] - x) / abs(at[each][1] - y))
        return x + (others.index(other) - (len(others) - 1) / 2) * SPREAD

    return {
        (upper, lower): (
            beside(upper, [b for a, b in drawn if a == upper], lower),
            at[upper][1] + HEIGHT / 2,
            beside(lower, [a for a, b in drawn if b == lower], upper),
            at[lower][1] - HEIGHT / 2,
        )
        for upper, lower in drawn
    }


def draw(*, alt: str) -> str:
    """Return the picture, as SVG."""
    at = spots()
    boxes = [
        svg.box(x, y, WIDTH, HEIGHT, name, kind="room" if is_room(name) else "door") for name, (x, y) in at.items()
    ]
    width = max(x for x, _ in at.values()) + WIDTH / 2 + 2
    return svg.picture(
        width,
        HEIGHT + len(layers()) * DOWN - DOWN + HEIGHT,
        [*(svg.arrow(*line) for line in lines().values()), *boxes],
        alt=alt,
    )
