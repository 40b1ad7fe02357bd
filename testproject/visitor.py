"""A visitor of the shop, over HTTP."""

import requests

TIMEOUT_SECONDS = 30


class ShopError(Exception):
    """The shop did not answer as it must. The message says which page, and why."""


def check_shop(url: str) -> None:
    """Raise ShopError unless the shop is served at ``url``."""
    with _client() as client:
        _request(client, "GET", f"{url}/login/", 200)


def visit(url: str, username: str, password: str, items: list[str]) -> list[str]:
    """
    Sign in to the shop at ``url``, and view the pages of ``items`` in their order; don't sign out.

    Returns a line for each page that was not served. A user who can't sign in views nothing.
    """
    failures = []
    with _client() as client:
        try:
            _request(client, "GET", f"{url}/login/", 200)
            token = client.cookies.get("csrftoken") or ""
            form = {"username": username, "password": password, "csrfmiddlewaretoken": token}
            _request(client, "POST", f"{url}/login/", 302, form)
        except ShopError as error:
            return [f"user {username} could not sign in: {error}"]
        for item in items:
            try:
                _request(client, "GET", f"{url}/products/{item}/", 200)
            except ShopError as error:
                failures.append(f"user {username}: {error}")
    return failures


def _client() -> requests.Session:
    client = requests.Session()
    # Ignore the system's proxies: they can't reach this machine, and looking for them takes time at each request.
    client.trust_env = False
    return client


def _request(
    client: requests.Session, method: str, url: str, status_code: int, form: dict[str, str] | None = None
) -> None:
    try:
        response = client.request(method, url, data=form, allow_redirects=False, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, UnicodeError) as error:
        raise ShopError(f"{method} {url} got no answer ({type(error).__name__})") from error
    if response.status_code != status_code:
        raise ShopError(f"{method} {url} was answered with {response.status_code} instead of {status_code}")
