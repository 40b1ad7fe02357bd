"""Every text that can be translated has a translation that is compiled."""

import gettext
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "django_redsess"


def test_every_text_of_a_translation_is_compiled() -> None:
    for source in PACKAGE.glob("locale/*/LC_MESSAGES/django.po"):
        with source.with_suffix(".mo").open("rb") as compiled:
            known = gettext.GNUTranslations(compiled)._catalog
        texts = re.findall(r'^msgid "(.+)"$', source.read_text(encoding="utf-8"), re.MULTILINE)
        assert texts
        assert [text for text in texts if text not in known and (text, 0) not in known] == []
