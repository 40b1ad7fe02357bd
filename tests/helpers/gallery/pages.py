"""The pages of the gallery, and on which sites and in which looks they are seen."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.helpers.browsing import LIST
from tests.helpers.gallery.visits import (
    END,
    OWN,
    SIGN_INS,
    Visit,
    after_block,
    ask_about_device,
    ask_about_others,
    ask_admin,
    ask_shopper,
    be_offline,
    be_refused,
    end_last,
    end_others,
    end_own,
    end_stranger,
    follow,
    of_user,
    read_mail,
    read_mail_of_copy,
    refuse_password,
    unfold,
)
from tests.helpers.items import LIST as MOST_VIEWED

LANGUAGES = {"light": "en", "dark": "en", "de": "de", "ar": "ar"}
"""The language of each look. Those in other languages than English are light."""


PAGES: dict[str, tuple[str, str | Callable[[Visit], object]]] = {
    "admin-index": ("admin", "/admin/"),
    "admin-list": ("admin", LIST),
    "admin-list-search": ("admin", LIST + "?q=kavya"),
    "admin-list-address": ("admin", LIST + "?q=198.51.100"),
    "admin-list-filtered": ("admin", LIST + "?active=5m"),
    "admin-list-empty": ("admin", LIST + "?q=nobody"),
    "admin-list-absent": ("admin", LIST + "?q=nora"),
    "admin-list-everyone": ("admin", LIST + "?guests=true"),
    "admin-list-guests": ("admin", LIST + "?guests=only"),
    "admin-list-support": ("sam", LIST),
    "admin-support-absent": ("sam", LIST + "?q=nora"),
    "admin-support-blocked": ("sam", after_block(lambda visit: visit.page.goto(LIST + "?q=hugo"))),
    "admin-support-sign-ins": ("sam", after_block(lambda visit: visit.page.goto(SIGN_INS + "?q=hugo"))),
    "admin-support-sign-in": ("sam", after_block(follow("#result_list a[href*='/change/']", SIGN_INS + "?q=hugo"))),
    "admin-session": ("admin", follow("#result_list a[href*='/change/']", f"{LIST}?q=kavya")),
    "admin-end-one": ("admin", follow(END, f"{LIST}?q=amelia")),
    "admin-end-user": ("admin", LIST + "confirm/?q=kavya"),
    "admin-end-all": ("admin", LIST + "confirm/"),
    "admin-ended": ("admin", end_last),
    "admin-password": ("admin", ask_admin),
    "admin-blocked": ("admin", after_block(lambda visit: visit.page.goto(LIST + "blocked/"))),
    "admin-time-day": ("admin", LIST + "numbers/"),
    "admin-time-week": ("admin", LIST + "numbers/?range=week"),
    "admin-viewed": ("admin", MOST_VIEWED),
    "admin-viewed-empty": ("admin", MOST_VIEWED + "?q=nothing"),
    "admin-reset": ("admin", MOST_VIEWED + "confirm/"),
    "admin-sign-ins": ("admin", SIGN_INS),
    "admin-sign-ins-search": ("admin", SIGN_INS + "?q=nora"),
    "admin-sign-ins-empty": ("admin", SIGN_INS + "?q=nobody"),
    "admin-sign-in": ("admin", follow("#result_list a[href*='/change/']", SIGN_INS + "?q=nora")),
    "admin-user": ("admin", of_user("kavya")),
    "admin-user-blocked": ("admin", after_block(of_user("hugo"))),
    "admin-user-history": ("admin", of_user("hugo", "history/")),
    "own-list": ("elif", OWN),
    "own-not-me": ("elif", OWN + "not-me/"),
    "own-not-me-device": ("elif", ask_about_device),
    "own-not-me-ended": ("elif", end_stranger),
    "own-everywhere-else": ("elif", ask_about_others),
    "own-password": ("elif", ask_shopper),
    "own-password-wrong": ("elif", refuse_password),
    "own-ended": ("elif", end_own),
    "own-ended-others": ("elif", end_others),
    "shop-home": ("", "/"),
    "shop-product": ("", "/products/slow-heron/"),
    "shop-popular": ("", "/popular/"),
    "shop-basket": ("", "/basket/"),
    "shop-login": ("", "/login/"),
    "shop-not-found": ("", "/nothing-here/"),
    "shop-refused": ("", be_refused),
    "shop-offline": ("elif", be_offline),
    "api": ("admin", "/api/v1/"),
    "api-operation": ("admin", unfold),
    "mail": ("", read_mail),
    "mail-of-copy": ("", read_mail_of_copy),
}
"""Each page, with who looks at it ("": nobody who is signed in), and its path or what they do to see it."""

LIGHT_AND_DARK, ALL = ("light", "dark"), tuple(LANGUAGES)


class Site(NamedTuple):
    """A demo: its settings, and the looks of the pages whose names begin so."""

    settings: str
    looks: dict[str, tuple[str, ...]]


SITES = {
    "": Site("gallery", {"admin": ALL, "mail": ALL, **dict.fromkeys(("own", "shop", "api"), LIGHT_AND_DARK)}),
    "plain": Site("plain", dict.fromkeys(("own", "shop-refused", "shop-offline"), ALL)),
    "unfold": Site("unfold", {"admin": LIGHT_AND_DARK}),
    "jazzmin": Site("jazzmin", {"admin": LIGHT_AND_DARK}),
}
"""Where pages are seen. The shop is seen in English. ``plain`` is self-service without its frame, in all looks."""


class Task(NamedTuple):
    """A page to be seen by somebody in a look."""

    who: str
    name: str
    look: str

    @property
    def language(self) -> str:
        return LANGUAGES[self.look]


def tasks(site: str, words: Sequence[str] = ()) -> list[Task]:
    """Return what is to be seen of ``site``, by who sees it in which language. ``words`` choose sites and pages."""
    found = []
    for name, (who, _) in PAGES.items():
        looks = next((looks for start, looks in SITES[site].looks.items() if name.startswith(start)), ())
        if not words or site in words or name.startswith(tuple(words)):
            found += [Task(who, name, look) for look in looks]
    return sorted(found, key=lambda task: (task.language != "en", task.language, task.who))
