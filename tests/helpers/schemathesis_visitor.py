"""
Who visits the demo when schemathesis runs: the variable VISITOR has a user name and a password, or nothing.

schemathesis imports this by SCHEMATHESIS_HOOKS. It may end its own session: then the visitor signs in again.
"""

import os
from typing import Any
from urllib.parse import urlencode, urlsplit

import requests
import schemathesis

NAME, _, PASSWORD = os.environ["VISITOR"].partition(" ")


def sign_in(origin: str) -> dict[str, str]:
    """Return the cookies of a new session."""
    with requests.Session() as browser:
        browser.trust_env = False
        browser.get(f"{origin}/login/", timeout=10).raise_for_status()
        form = {"username": NAME, "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        browser.post(f"{origin}/login/", form, timeout=10, allow_redirects=False).raise_for_status()
        return dict(browser.cookies)


class Visitor:
    cookies: dict[str, str] | None = None

    def get(self, case: Any, context: Any) -> dict[str, str]:
        if Visitor.cookies is None:
            url = urlsplit(case.operation.base_url)
            Visitor.cookies = sign_in(f"{url.scheme}://{url.netloc}")
        return Visitor.cookies

    def set(self, case: Any, data: dict[str, str], context: Any) -> None:
        case.cookies = {**(case.cookies or {}), **data}
        case.headers = {**(case.headers or {}), "X-CSRFToken": data["csrftoken"]}


if NAME:
    schemathesis.auth(refresh_interval=None)(Visitor)


@schemathesis.hook
def filter_query(context: Any, query: Any) -> bool:
    # The server of the demo takes 64 KiB in the first line of a request, and answers more by itself.
    return len(urlencode(query or {}, doseq=True)) < 32_000


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    if response.status_code == 401:
        Visitor.cookies = None
