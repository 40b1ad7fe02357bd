"""What docs/howto/acl.rst gives to the user of the server."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "howto" / "acl.rst"


def listed() -> list[str]:
    """Return the rules that the docs give to the user."""
    [rules] = re.findall(r"ACL SETUSER shop (.*?)\n\n", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return str(rules).replace("\\", "").split()


def commands(rules: list[str]) -> set[str]:
    """Return the commands that ``rules`` allow by name."""
    return {rule.removeprefix("+") for rule in rules if rule.startswith("+")}
