"""Items as nobody would name them, and the admin's page of the most viewed ones."""

import html
import re
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.utils.http import urlencode

from django_redsess.models import PopularItem
from tests.helpers.admin_pages import Page, words

STRANGE = [
    *("<script>alert(1)</script>", "a/b", "..", "%00", "\0", "a\r\nb", "\n", "\t", "\tx", "NaN", "add", "_5F", "a b"),
    *(" ", " kite ", "a:b", "%", "%25", "_", "'\"&amp;", "\u202eevil", "漢" * 21, "é" * 32, "x" * 64, "0", "-1", "+1"),
]

LIST = "/admin/django_redsess/popularitem/"

CONFIRM, RESET = LIST + "confirm/", LIST + "reset/"

VIEWS = {"kite": 1250, "lamp": 400, "rope": 400, "tail": 3}


def rows(response: Any) -> list[dict[str, str]]:
    """The rows of the list: of each column the text, and its markup as ``…_html``."""
    assert response.status_code == 200
    body = response.text.partition('id="result_list"')[2].partition("</table>")[0]
    found = []
    for row in re.findall(r"<tr>(.*?)</tr>", body.partition("<tbody>")[2], flags=re.DOTALL):
        found.append({})
        for name, cell in re.findall(r'<t[dh] class="field-(\w+)[^"]*">(.*?)</t[dh]>', row, flags=re.DOTALL):
            found[-1] |= {name: text_of(cell), f"{name}_html": cell}
    return found


def text_of(markup: str) -> str:
    return words(html.unescape(re.sub(r"<[^>]*>", "", markup)))


def names(response: Any) -> list[str]:
    return [row["name"] for row in rows(response)]


def select(client: Client, *keys: str, query: str = "", **more: str) -> Any:
    """Choose the action for these rows of the list."""
    return client.post(LIST + query, {"action": "reset_selected", "_selected_action": keys, **more})


def select_all(client: Client, query: str = "") -> Any:
    """Choose the action for all that match: what the list's own page sends then."""
    return select(client, "x", query=query, select_across="1", index="0")


def fields(response: Any) -> list[tuple[str, str]]:
    """What the form of a confirmation page would send, the token aside."""
    assert response.status_code == 200
    return [(name, value) for name, value in Page(response).sent if name != "csrfmiddlewaretoken"]


def checkboxes(response: Any) -> list[str]:
    """What the rows of a list send when they are selected, as a browser does."""
    tags = re.findall(r'<input type="checkbox" name="_selected_action".*?>', response.text, flags=re.DOTALL)
    values = [html.unescape(re.search(r'value="(.*?)"', tag, flags=re.DOTALL)[1]) for tag in tags]
    return [re.sub(r"\r\n?|\n", "\r\n", value.replace("\0", "\ufffd")) for value in values]


def answer(client: Client, response: Any) -> Any:
    """Send a confirmation page's form, and return where that leads."""
    return client.post(RESET, urlencode(fields(response)), "application/x-www-form-urlencoded", follow=True)


def asked(response: Any) -> str:
    """What a confirmation page asks."""
    found = re.search(r"Do you want to reset .*?\?", Page(response).text)
    return found[0] if found else ""


def told(response: Any) -> str:
    return " ".join(Page(response).messages)


def lines() -> list[tuple[str | None, str, str]]:
    """The history of most viewed items, the oldest line first: of which item, how it is called, what was done."""
    found = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(PopularItem)).order_by("pk")
    return [(line.object_id, line.object_repr, line.get_change_message()) for line in found]
