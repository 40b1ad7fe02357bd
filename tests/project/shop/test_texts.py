"""Every text of the shop is translated into every language, compiled, and shown in the browser's language."""

import gettext
import io
import re
from collections import Counter
from pathlib import Path

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from testproject.shop.models import Product
from tests.helpers.texts import LANGUAGES, catalogue_of, forms_of, texts_of_sources

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "testproject"
TEMPLATES = SHOP / "shop" / "templates"
MARKS = re.compile(r"%\(\w+\)[a-z]|</?\w+>")
# Its texts are about the server, and English: it says so to browsers.
ENGLISH = {"moving.html"}
# Between tags, or in an attribute that is read out.
READ_OUT = re.compile(r'(?:>|(?:alt|title|aria-label|placeholder)=")([^<>"]*[A-Za-z][^<>"]*)')


def source_of(folder: Path, language: str) -> Path:
    return folder / "locale" / language / "LC_MESSAGES" / "django.po"


@pytest.mark.unit
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_compiled(language: str) -> None:
    texts, source = texts_of_sources(SHOP), source_of(SHOP, language)
    entries = catalogue_of(source)
    assert len(texts) > 80
    assert {text for text, message in entries.items() if all(forms_of(message)) and not message.fuzzy} == texts.keys()
    for (_, one, _), message in entries.items():
        marks = Counter(MARKS.findall(one))
        assert [form for form in forms_of(message) if Counter(MARKS.findall(form)) != marks] == []
    # The shop's catalogue comes before the package's: the same text is the same in both.
    of_package = catalogue_of(source_of(ROOT / "django_redsess", language))
    shared = entries.keys() & of_package.keys()
    assert {text: forms_of(entries[text]) for text in shared} == {text: forms_of(of_package[text]) for text in shared}
    written = io.BytesIO()
    with source.open("rb") as file:
        write_mo(written, read_po(file))
    written.seek(0)
    with source.with_suffix(".mo").open("rb") as file:
        compiled, expected = (gettext.GNUTranslations(each)._catalog for each in (file, written))
    # The entry of the empty text is the head of the file.
    assert {**compiled, "": None} == {**expected, "": None}


@pytest.mark.unit
def test_templates_have_no_text_that_cannot_be_translated() -> None:
    found = {}
    for path in TEMPLATES.rglob("*.html"):
        source = re.sub(
            r"\{% blocktranslate.*?endblocktranslate %\}|\{[%{#].*?[%}#]\}", "", path.read_text(), flags=re.S
        )
        words = [text.strip() for text in READ_OUT.findall(f">{source}")]
        if path.name not in ENGLISH and (left := [text for text in words if "Lull &amp; Gust" not in text]):
            found[path.name] = left
    assert found == {}


@pytest.mark.django_db
def test_pages_are_in_the_language_of_the_browser() -> None:
    Product.objects.create(slug="larch", name="Larch", description="A tree that flies.")
    browser = Client(headers={"accept-language": "ar"})
    browser.force_login(User.objects.create_user("ada"))
    browser.post(reverse("shop:add", args=["larch"]), {"quantity": 1})
    names = ("shop:home", "shop:popular", "shop:basket", "login", "password_change", "password_change_done")
    for path in (*map(reverse, names), "/products/larch/", "/no-such-page/"):
        page = browser.get(path)
        assert 'lang="ar" dir="rtl"' in page.text, path
        assert "Kites" not in page.text, path
        assert "Accept-Language" in page["Vary"], path
    assert "24,00\xa0€" in Client(headers={"accept-language": "de"}).get("/").text.replace(" €", "\xa0€")


@pytest.mark.django_db
def test_the_password_is_changed_on_a_page_that_self_service_leads_to() -> None:
    ada = User.objects.create_user("ada", password="countess")
    browser, other = Client(), Client()
    for each in (browser, other):
        assert each.login(username="ada", password="countess")
    not_me = browser.get(reverse("django_redsess:not_me"))
    assert f'href="{reverse("password_change")}"' in not_me.text
    form = {"old_password": "countess", "new_password1": "analytical-engine", "new_password2": "analytical-engine"}
    done = browser.post(reverse("password_change"), form, follow=True)
    assert (done.status_code, done.redirect_chain[0][0]) == (200, reverse("password_change_done"))
    ada.refresh_from_db()
    assert ada.check_password("analytical-engine")
    assert browser.get("/").wsgi_request.user == ada
    assert not other.get("/").wsgi_request.user.is_authenticated
