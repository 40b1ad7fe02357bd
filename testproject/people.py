"""The people of the demo: staff, a dozen shoppers who sign in and look at products, and guests."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from django_redsess import online
from django_redsess.backend import SessionStore
from testproject.shop.models import Product

PASSWORD = "shopping"

_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64"
_MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
_CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0"
CHROME_WINDOWS = f"{_WINDOWS}) {_CHROME} Safari/537.36"
CHROME_MAC = f"{_MAC} {_CHROME} Safari/537.36"
CHROME_ANDROID = f"Mozilla/5.0 (Linux; Android 10; K) {_CHROME} Mobile Safari/537.36"
EDGE_WINDOWS = f"{CHROME_WINDOWS} Edg/143.0.0.0"
FIREFOX_WINDOWS = f"{_WINDOWS}; rv:145.0) Gecko/20100101 Firefox/145.0"
FIREFOX_LINUX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
SAFARI_MAC = f"{_MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15"
SAFARI_IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/26.1 Mobile/15E148 Safari/604.1"
)

# Name, address, browser. The addresses are reserved for documentation.
SHOPPERS = [
    ("Amelia Novak", "192.0.2.17", CHROME_WINDOWS),
    ("Benjamin Okafor", "198.51.100.23", SAFARI_IPHONE),
    ("Chiara Rossi", "2001:db8:12::a4", SAFARI_MAC),
    ("Daniel Lindqvist", "203.0.113.8", FIREFOX_LINUX),
    ("Elif Yilmaz", "192.0.2.140", CHROME_ANDROID),
    ("Farid Haddad", "198.51.100.71", EDGE_WINDOWS),
    ("Grace Mwangi", "203.0.113.55", CHROME_ANDROID),
    ("Hugo Fernandes", "2001:db8:7:31::9", CHROME_MAC),
    ("Ines Moreau", "198.51.100.198", FIREFOX_WINDOWS),
    ("Jun Tanaka", "203.0.113.201", SAFARI_IPHONE),
    ("Kavya Sharma", "192.0.2.66", CHROME_WINDOWS),
    ("Lukas Weber", "2001:db8:90::1f", SAFARI_MAC),
]


# Second browsers of the same shoppers. Two have the address of another one, as in an office.
MORE_BROWSERS = [
    ("Benjamin Okafor", "198.51.100.71", CHROME_MAC),
    ("Elif Yilmaz", "203.0.113.9", FIREFOX_WINDOWS),
    ("Ines Moreau", "198.51.100.71", CHROME_WINDOWS),
    ("Kavya Sharma", "203.0.113.130", CHROME_ANDROID),
    ("Kavya Sharma", "192.0.2.66", FIREFOX_WINDOWS),
]

PLACES = {
    "192.0.2.17": "Ljubljana, Slovenia",
    "192.0.2.66": "Pune, India",
    "192.0.2.140": "Izmir, Türkiye",
    "198.51.100.23": "Lagos, Nigeria",
    "198.51.100.71": "Lyon, France",
    "198.51.100.198": "Grenoble, France",
    "203.0.113.8": "Gothenburg, Sweden",
    "203.0.113.9": "Ankara, Türkiye",
    "203.0.113.55": "Nairobi, Kenya",
    "203.0.113.130": "Mumbai, India",
    "203.0.113.201": "Osaka, Japan",
    "2001:db8:7:31::9": "Porto, Portugal",
    "2001:db8:12::a4": "Bologna, Italy",
    "2001:db8:90::1f": "Hamburg, Germany",
}
"""Where the shoppers are. No database has a place for these addresses, so the demo makes them up."""

GUESTS = 7


class Visitor(NamedTuple):
    """Somebody in the shop, with a browser. A guest has no user name."""

    username: str
    browser: Client

    @property
    def sid(self) -> str:
        """The id of the session whose cookie the browser has, or "" without one."""
        cookie = self.browser.cookies.get("sessionid")
        return (SessionStore(cookie.value).sid or "") if cookie else ""

    def sign_in(self) -> None:
        """Send the form. The sign-in may be refused."""
        self.browser.post(reverse("login"), {"username": self.username, "password": PASSWORD})

    def look_at(self, product: Product) -> Any:
        """Open the product's page, and return the response."""
        return self.browser.get(product.get_absolute_url())

    def put_into_basket(self, product: Product) -> None:
        self.browser.post(reverse("shop:add", args=[product.slug]), {"quantity": 1})


def create_staff() -> None:
    """Create those who are missing: the superuser ``admin``, and ``sam`` of the support, who is in its group."""
    account("admin", "admin", is_staff=True, is_superuser=True)
    sam = account("sam", "support", is_staff=True)
    call_command("supportgroup", verbosity=0)
    sam.groups.set(Group.objects.filter(name="Support"))


def places(addresses: Sequence[str]) -> dict[str, str]:
    """Return where ``addresses`` are: the function of the setting ``PLACES`` in the demo."""
    return {address: PLACES[address] for address in addresses if address in PLACES}


def usernames() -> list[str]:
    return [name.split()[0].lower() for name, _, _ in SHOPPERS]


def bring_in_shoppers(browsers: Sequence[tuple[str, str, str]] = SHOPPERS) -> list[Visitor]:
    """End the shoppers' sessions, sign each in with ``browsers``, and let them view products."""
    for name in usernames():
        if user := User.objects.filter(username=name).first():
            online.end(*(session.sid for session in online.of_user(user)))
    # The same views each time, so that the demo looks like the documentation.
    chance, visitors = Random(1), []
    for name, address, user_agent in browsers:
        first_name, last_name = name.split()
        user = account(first_name.lower(), PASSWORD, first_name=first_name, last_name=last_name)
        visitor = Visitor(user.username, browser(user_agent, address))
        visitor.sign_in()
        _look_around(visitor, chance)
        visitors.append(visitor)
    return visitors


def bring_in_guests() -> list[Visitor]:
    """Let guests put a product into a new basket."""
    chance, guests = Random(4), [Visitor("", browser(CHROME_ANDROID)) for _ in range(GUESTS)]
    for guest in guests:
        guest.put_into_basket(chance.choice(products()))
        _look_around(guest, chance)
    return guests


def browser(user_agent: str, address: str = "127.0.0.1") -> Client:
    """Return a browser at ``address``."""
    return Client(headers={"user-agent": user_agent}, REMOTE_ADDR=address)


def _look_around(visitor: Visitor, chance: Random) -> None:
    for product in chance.sample(products(), chance.randint(2, 7)):
        visitor.look_at(product)
        if chance.random() < 0.15:
            visitor.put_into_basket(product)


def products() -> list[Product]:
    """Return the products that these people look at."""
    return list(Product.objects.order_by("pk")[:24])


def account(username: str, password: str, **fields: str | bool) -> User:
    """Return the user with this name, who is created if missing and gets this password."""
    # Names that nobody can register. A demo before this one may have left the user without an address.
    last_name = str(fields.get("last_name", "")).lower()
    email = f"{username}.{last_name}@example.com" if last_name else f"{username}@shop.example"
    user, _ = User.objects.get_or_create(username=username, defaults={**fields, "email": email})
    if not user.email:
        User.objects.filter(pk=user.pk).update(email=email)
    # Hashing the same password again would end all sessions of the user.
    if not user.check_password(password):
        user.set_password(password)
        user.save()
    return user
