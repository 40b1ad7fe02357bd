"""Pages of the admin, as who reads them sees them, and the forms on them."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import lxml.html
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client

from django_redsess import online
from django_redsess.models import OnlineSession

LIST = "/admin/django_redsess/onlinesession/"

MARKUP = "</td></script><script>alert('x')</script><b onclick=alert(1)>\"'&amp;"


UNSEEN = ("redsess-heard", "redsess-label")
"""Classes of what is heard, or seen on a phone only."""


def text_of(element: Any, without: str = "") -> str:
    """Return what is seen of ``element``, but for parts of the class ``without``."""
    if element.tag in ("script", "style") or element.get("class", "") in (*UNSEEN, without or UNSEEN[0]):
        return ""
    if element.tag == "br":
        return " "
    texts = [element.text or ""]
    for child in element:
        texts += [text_of(child, without) if isinstance(child.tag, str) else "", child.tail or ""]
    return "".join(texts)


class Page:
    """
    What somebody sees of a page.

    ``rows`` are those of the list: the text of each column and of all together (``text``), and ``sid``, ``own`` (how it
    is marked) and ``hrefs``; ``tables`` the tables of a session's page, as text; ``links`` where each text leads first;
    ``sent`` and ``fields`` what the confirmation page would send; ``messages`` what Django's messages say.
    """

    def __init__(self, response: Any) -> None:
        # A refusal may have no text.
        page = lxml.html.fromstring(response.text or "<p>")
        self.text = words(text_of(page))
        self.all_links = [(words(text_of(link)), link.get("href", "")) for link in page.iter("a")]
        self.links = dict(reversed(self.all_links))
        self.rows: list[dict[str, Any]] = []
        self.tables: list[list[list[str]]] = []
        for table in page.iter("table"):
            kind = table.get("id", table.get("class", ""))
            if kind == "result_list":
                # The head has a row as well.
                self.rows += [row for row in map(row_of, table.iter("tr")) if "user" in row]
            if "redsess-table" in kind:
                self.tables.append(
                    [[words(text_of(cell)) for cell in row.iter("td", "th")] for row in table.iter("tr")]
                )
        lists = (each for each in page.iter("ul") if each.get("class") == "messagelist")
        self.messages = [words(text_of(message)) for each in lists for message in each.iter("li")]
        asking = (each for each in page.iter("form") if each.get("action", "").endswith(("/end/", "/reset/")))
        self.sent = [sent for form in asking for sent in sent_by(form)]

    @property
    def fields(self) -> dict[str, str]:
        return dict(self.sent)

    @property
    def count(self) -> int:
        """How many sessions the list says there are."""
        found = re.search(r"\b(\d[\d,]*) (?:signed in|(?:matching |online )?sessions?)\b", self.text)
        assert found is not None
        return int(found[1].replace(",", ""))

    @property
    def names(self) -> list[str]:
        return [row["user"] for row in self.rows]

    @property
    def sids(self) -> list[str]:
        return [row["sid"] for row in self.rows]


def row_of(found: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"sid": "", "hrefs": [each.get("href", "") for each in found.iter("a")], "text": ""}
    for href in row["hrefs"]:
        if "/change/" in href and "/onlinesession/" in href:
            row["sid"] = unquote(href.partition("/change/")[0].rpartition("/")[2])
    row["own"] = " ".join(words(text_of(each)) for each in found.iter("strong"))
    for cell in found.iter("td", "th"):
        name, _, _ = cell.get("class", "").partition(" ")
        if name.startswith("field-"):
            # How a session is marked is no part of its user's name.
            text = row[name.removeprefix("field-")] = words(text_of(cell, without="redsess-own"))
            row["text"] += text + "; "
    return row


def sent_by(form: Any) -> Iterator[tuple[str, str]]:
    """Yield what a browser sends: it has no NUL, and one kind of line break."""
    for field in form.iter("input"):
        is_box = field.get("type") == "checkbox"
        if "name" in field.attrib and field.get("type") != "submit" and ("checked" in field.attrib or not is_box):
            value = field.get("value", "on" if is_box else "").replace("\0", "\ufffd")
            yield field.get("name"), re.sub(r"\r\n?|\n", "\r\n", value)


def words(text: str) -> str:
    """Write ``text`` on one line, with plain blanks."""
    return " ".join(text.split())


def staff(client: Client, *permissions: str, name: str = "staff") -> Client:
    """Sign ``client`` in as a member of staff with these permissions only."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def support_member(client: Client) -> Client:
    """Sign ``client`` in as sam, of the support group."""
    call_command("supportgroup", verbosity=0)
    staff(client, name="sam")
    User.objects.get(username="sam").groups.set(Group.objects.all())
    return client


def have_own_rule(monkeypatch: Any, name: str, rule: Callable[..., Any]) -> None:
    """Let the admin of sessions be one of a subclass that has the method ``name``."""
    sessions = admin.site._registry[OnlineSession]
    monkeypatch.setattr(sessions, "__class__", type("OwnRule", (type(sessions),), {name: rule}))


def page_of(sid: str) -> str:
    """The address of the page of a session."""
    return f"{LIST}{quote(sid)}/change/"


def milliseconds_ago(seconds: float) -> int:
    return int((datetime.now(UTC).timestamp() - seconds) * 1000)


def walk(client: Client, url: str) -> Iterator[Page]:
    """Read all pages of a list, as somebody does who takes the link to each next one."""
    number, page = 1, Page(client.get(url))
    yield page
    while href := page.links.get(str(number + 1)):
        number, page = number + 1, Page(client.get(LIST + href))
        yield page


CONFIRM, END = LIST + "confirm/", LIST + "end/"


def asked(response: Any) -> int:
    """How many sessions a confirmation page asks about."""
    found = re.search(r"Do you want to end ([\d,]+) session", Page(response).text)
    return int(found[1].replace(",", "")) if found else 0


def answer(client: Client, response: Any, **changes: str) -> Any:
    """Send a confirmation page's form as it is, but for these fields, and return where that leads."""
    return client.post(END, {**Page(response).fields, **changes}, follow=True)


def told(response: Any) -> str:
    """All messages of a page, one after the other."""
    return " ".join(Page(response).messages)


def left() -> set[str]:
    """The sids of all who are still there, guests too."""
    return {session.sid for session in online.sessions(guests=True, limit=1000)}
