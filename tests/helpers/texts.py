"""The package's texts that can be translated, found as ``makemessages`` finds them, but without gettext's programs."""

import io
import re
from functools import cache
from pathlib import Path

from babel.messages.catalog import Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.pofile import read_po
from django.utils.translation.template import templatize

LANGUAGES = ["ar", "de", "es", "fr", "ja", "pt_BR", "zh_Hans"]
"""The languages that the package is translated into."""

LAZY = {f"{name}_lazy": DEFAULT_KEYWORDS[name] for name in ("gettext", "ngettext", "pgettext", "npgettext")}
KEYWORDS = {**DEFAULT_KEYWORDS, **LAZY, "gettext_noop": None}

# Its context, if it has one; itself; and its plural, if it has one.
Text = tuple[str | None, str, str | None]


@cache
def texts_of_sources(folder: Path) -> dict[Text, Path]:
    """Return all texts in the modules and templates below ``folder``, each with a file that has it."""
    found: dict[Text, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".py", ".html", ".svg", ".txt"}:
            continue
        source = path.read_text(encoding="utf-8")
        if path.suffix != ".py":
            # What templatize() returns is read as Python, where a line must not begin with spaces.
            source = re.sub(r"^[ \t]+", "", templatize(source), flags=re.MULTILINE)
        for _, ids, _, context in extract("python", io.BytesIO(source.encode()), keywords=KEYWORDS):
            one, many = ids if isinstance(ids, tuple) else (ids, None)
            found.setdefault((context, one, many), path)
    return found


def catalogue_of(source: Path) -> dict[Text, Message]:
    """Return the entries of a ``.po`` file."""
    with source.open("rb") as file:
        catalogue = read_po(file, abort_invalid=True)
    assert not catalogue.obsolete
    entries: dict[Text, Message] = {}
    for message in catalogue:
        if message.id:
            one, many = message.id if isinstance(message.id, tuple) else (message.id, None)
            entries[message.context, one, many] = message
    return entries


def forms_of(message: Message) -> tuple[str, ...]:
    """Return the translations of a text: one for each plural form of the language, or a single one."""
    return message.string if isinstance(message.string, tuple) else (message.string,)
