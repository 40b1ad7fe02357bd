"""Every text that can be translated is translated into every language, and compiled."""

import gettext
import io
import re
from collections import Counter
from itertools import product
from pathlib import Path

import django
import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.contrib.admin import ListFilter
from django.utils import translation

from django_redsess.admin import filters as filters_of_sessions
from django_redsess.contrib.history import filters as filters_of_sign_ins
from tests.helpers.texts import LANGUAGES, catalogue_of, forms_of, texts_of_sources

pytestmark = pytest.mark.unit

PACKAGE = Path(__file__).parents[2] / "django_redsess"
# Placeholders, percent signs and tags: what a translation must have, too.
MARKS = re.compile(r"%\(\w+\)[a-z]|%[a-z%]|\{\w*\}|</?\w+>")


def source_of(language: str) -> Path:
    return PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po"


def compiled_of(language: str) -> gettext.GNUTranslations:
    with source_of(language).with_suffix(".mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def test_all_languages_are_tested() -> None:
    assert sorted(path.name for path in (PACKAGE / "locale").iterdir()) == LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_nothing_else(language: str) -> None:
    texts, entries = texts_of_sources(PACKAGE), catalogue_of(source_of(language))
    assert len(texts) > 100
    # All forms, and none of them marked as a guess.
    translated = {text for text, message in entries.items() if all(forms_of(message)) and not message.fuzzy}
    assert {text: path.name for text, path in texts.items() if text not in translated} == {}
    assert entries.keys() - texts.keys() == set()
    # A name may be the same in two languages, a sentence is not.
    assert [text for text, message in entries.items() if text[1] in forms_of(message) and text[1].count(" ") > 2] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_placeholders_of_the_text_and_all_plural_forms(language: str) -> None:
    with source_of(language).open("rb") as file:
        plural_forms = read_po(file).num_plurals
    for (_, one, many), message in catalogue_of(source_of(language)).items():
        forms = forms_of(message)
        assert isinstance(message.string, tuple) == (many is not None), one
        assert len(forms) == (1 if many is None else plural_forms), one
        # A text about one may do without the number. The last form is for most numbers.
        allowed = [Counter(MARKS.findall(text)) for text in (one, many) if text is not None]
        assert [form for form in forms if Counter(MARKS.findall(form)) not in allowed] == []
        assert Counter(MARKS.findall(forms[-1])) == allowed[-1], forms[-1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_are_compiled_and_shown_by_django(language: str) -> None:
    written = io.BytesIO()
    with source_of(language).open("rb") as file:
        write_mo(written, read_po(file))
    written.seek(0)
    expected, compiled = gettext.GNUTranslations(written), compiled_of(language)
    assert compiled.info()["plural-forms"] == expected.info()["plural-forms"]
    # The entry of the empty text is the head of the file.
    assert {**compiled._catalog, "": None} == {**expected._catalog, "": None}
    # Django merges ours with its own, which may have other plural forms for the same language.
    several = [text[1:] for text in catalogue_of(source_of(language)) if text[2] is not None and text[0] is None]
    with translation.override(translation.to_language(language)):
        for (one, many), number in product(several, (0, 1, 2, 3, 11, 100, 1_000_000)):
            assert translation.ngettext(one, many, number) == compiled.ngettext(one, many, number)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_of_ours_replaces_one_of_djangos_on_the_pages_of_a_site(language: str) -> None:
    # Catalogues of apps are merged: of the same text without a context, one app's translation is for all pages.
    djangos = {
        text: words
        for path in Path(django.__file__).parent.glob(f"**/locale/{language}/LC_MESSAGES/django.mo")
        for text, words in gettext.GNUTranslations(io.BytesIO(path.read_bytes()))._catalog.items()
        if words
    }
    ours = compiled_of(language)._catalog
    assert {text: words for text, words in ours.items() if text and djangos.get(text, words) != words} == {}


def test_titles_of_filters_have_translations_of_their_own() -> None:
    # Django shows them in "By %(filter_title)s": the name of a column need not fit there in each language.
    filters = {
        each
        for module in (filters_of_sessions, filters_of_sign_ins)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, ListFilter) and each.title and each.__module__ == module.__name__
    }
    assert len(filters) > 10
    texts = texts_of_sources(PACKAGE).keys()
    with translation.override(None):
        assert {each.__name__ for each in filters if ("filter by", str(each.title), None) not in texts} == set()
    with translation.override("de"):
        assert {str(each.title) for each in filters} & {"zuletzt gesehen", "beenden"} == set()


def test_texts_of_modules_and_of_templates_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        'gettext("One " "more")\nngettext("%(n)d dog", "%(n)d dogs", n)\nprint("not a text")\n'
    )
    (tmp_path / "new.html").write_text('{% load i18n %}\n  <p title="{{ title|default:_("Two") }}">not a text</p>\n')
    assert texts_of_sources(tmp_path).keys() == {
        (None, "One more", None),
        (None, "%(n)d dog", "%(n)d dogs"),
        (None, "Two", None),
    }
