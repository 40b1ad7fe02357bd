"""Pages of the admin, as who reads them sees them, and the forms on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from django.contrib.admin.utils import quote, unquote
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_redsess import online

LIST = "/admin/django_redsess/onlinesession/"

MARKUP = "</td></script><script>alert('x')</script><b onclick=alert(1)>\"'&amp;"


class Page(HTMLParser):
    """
    What somebody sees of a page.

    ``rows`` are those of the list: the text of each column and of all together (``text``), and ``sid``, ``own`` (how it
    is marked) and ``hrefs``; ``tables`` the tables of a session's page, as text; ``links`` where each text leads first;
    ``fields`` what the confirmation page would send; ``messages`` what Django's messages say.
    """

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.text = ""
        self.rows: list[dict[str, Any]] = []
        self.tables: list[list[list[str]]] = []
        self.links: dict[str, str] = {}
        self.all_links: list[tuple[str, str]] = []
        self.fields: dict[str, str] = {}
        self.messages: list[str] = []
        self._open: list[tuple[str, list[str], Callable[[str], None]]] = []
        self._form, self._table, self._list = "", "", ""
        self._is_hidden = False
        self.feed(response.text)
        self.text = words(self.text)

    @property
    def count(self) -> int:
        """How many sessions the list says there are."""
        found = re.search(r"([\d,]+) online session", self.text)
        assert found is not None
        return int(found[1].replace(",", ""))

    @property
    def names(self) -> list[str]:
        return [row["user"] for row in self.rows]

    @property
    def sids(self) -> list[str]:
        return [row["sid"] for row in self.rows]

    def _note_link(self, text: str, href: str) -> None:
        self.links.setdefault(text, href)
        self.all_links.append((text, href))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        having = {name: value or "" for name, value in attributes}
        kind = having.get("class", "")
        match tag:
            case "a":
                href = having.get("href", "")
                self._read(tag, lambda text: self._note_link(text, href))
                if self._table == "result_list" and self.rows:
                    self.rows[-1]["hrefs"].append(href)
                    if "/change/" in href and "/onlinesession/" in href:
                        self.rows[-1]["sid"] = unquote(href.partition("/change/")[0].rpartition("/")[2])
            case "span" if kind in ("redsess-heard", "redsess-label"):
                # Heard, or shown on a phone only.
                self._is_hidden = True
            case "table":
                self._table = having.get("id", kind)
                if "redsess-table" in self._table:
                    self.tables.append([])
            case "tr" if self._table == "result_list":
                self.rows.append({"own": "", "sid": "", "hrefs": [], "text": ""})
            case "tr" if "redsess-table" in self._table:
                self.tables[-1].append([])
            case "td" | "th" if kind.startswith("field-"):
                row, column = self.rows[-1], kind.split()[0].removeprefix("field-")
                self._read(tag, lambda text: row.update({column: text, "text": row["text"] + text + "; "}))
            case "td" | "th" if "redsess-table" in self._table:
                self._read(tag, self.tables[-1][-1].append)
            case "strong" if kind == "redsess-own" and self.rows:
                row = self.rows[-1]
                self._read(tag, lambda text: row.update(own=text))
            case "ul":
                self._list = kind
            case "li" if self._list == "messagelist":
                self._read(tag, self.messages.append)
            case "br":
                self.handle_data(" ")
            case "form":
                self._form = having.get("action", "")
            case "input" if self._form.endswith("/end/"):
                is_box = having.get("type") == "checkbox"
                if "name" in having and having.get("type") != "submit" and ("checked" in having or not is_box):
                    self.fields[having["name"]] = having.get("value", "on" if is_box else "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._is_hidden = False
        for place, (name, texts, done) in reversed(list(enumerate(self._open))):
            if name == tag:
                del self._open[place]
                done(words("".join(texts)))
                break
        match tag:
            case "table" if self._table == "result_list":
                # The head has a row as well.
                self._table, self.rows = "", [row for row in self.rows if "user" in row]
            case "table":
                self._table = ""
            case "ul":
                self._list = ""
            case "form":
                self._form = ""

    def handle_data(self, data: str) -> None:
        if self._is_hidden:
            return
        self.text += data
        # How a session is marked is no part of its user's name.
        marks = [each for each in self._open if each[0] == "strong"]
        for _, texts, _ in marks or self._open:
            texts.append(data)

    def _read(self, tag: str, done: Callable[[str], Any]) -> None:
        self._open.append((tag, [], done))


def words(text: str) -> str:
    """Write ``text`` on one line, with plain blanks."""
    return " ".join(text.split())


def staff(client: Client, *permissions: str, name: str = "staff") -> Client:
    """Sign ``client`` in as a member of staff with these permissions only."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


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
