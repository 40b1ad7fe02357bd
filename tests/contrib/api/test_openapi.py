"""The OpenAPI file: answers are as it says."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, path

from django_redsess.contrib import api
from tests.helpers.accounts import PASSWORD, sign_in
from tests.helpers.api import description

# A site that has the API elsewhere than the shop.
urlpatterns = [path("elsewhere/", api.urls()), path("admin/", admin.site.urls)]

API = "/api/v1"
JSON = "application/json"
DESCRIBED = description()


def check(browser: Client, method: str, where: str, status: int, **request: Any) -> Any:
    """Ask ``where``, whose parts in braces have values. Fail if the answer is not as the file says; return its JSON."""
    # Imported here: that takes a second of each process that collects the tests.
    from jsonschema import Draft202012Validator, FormatChecker

    url = API + re.sub(r"{\w+=(.*?)}", r"\1", where)
    if "body" in request:
        request |= {"data": request.pop("body"), "content_type": JSON}
    answer = getattr(browser, method)(url, **request)
    assert answer.status_code == status, answer.text
    operation = DESCRIBED["paths"][re.sub(r"{(\w+)=.*?}", r"{\1}", where).partition("?")[0]][method]
    described = operation["responses"][str(status)]
    if "content" not in described:
        assert answer.content == b""
        return None
    schema = described["content"][answer.headers["Content-Type"]]["schema"]
    validator = Draft202012Validator({**schema, "components": DESCRIBED["components"]}, format_checker=FormatChecker())
    validator.validate(answer.json())
    return answer.json()


def test_answers_to_a_user_are_as_the_file_says(alice: User) -> None:
    here, there, third = (sign_in(alice) for _ in range(3))
    listed = check(here, "get", "/me/sessions", 200)["sessions"]
    [present] = [each["id"] for each in listed if each["is_current"]]
    other = next(each["id"] for each in listed if not each["is_current"])
    assert len(listed) == 3
    check(here, "get", "/me/sessions?limit=1", 200)
    check(here, "get", "/me/sessions?limit=0", 422)
    check(here, "get", f"/me/sessions/{{id={other}}}", 200)
    check(here, "delete", f"/me/sessions/{{id={other}}}", 204)
    check(here, "get", f"/me/sessions/{{id={other}}}", 404)
    check(here, "delete", "/me/sessions", 200)
    check(here, "post", "/me/reauthenticate", 403, body={"password": "wrong"})
    check(here, "post", "/me/reauthenticate", 204, body={"password": PASSWORD})
    check(here, "post", "/me/reauthenticate", 422, body={})
    check(here, "post", "/me/reauthenticate", 415, data={"password": PASSWORD})
    check(here, "get", "/sessions", 403)
    check(Client(), "get", "/me/sessions", 401)
    check(there, "get", "/me/sessions", 401)
    [present] = [each["id"] for each in check(here, "get", "/me/sessions", 200)["sessions"]]
    check(here, "delete", f"/me/sessions/{{id={present}}}", 204)
    check(third, "get", "/me/sessions", 401)


def test_answers_to_an_administrator_are_as_the_file_says(root: Client, alice: User, new_session) -> None:
    own, guest = [sign_in(alice) for _ in range(4)], new_session(basket=[1])
    one = check(root, "get", f"/sessions?user={alice.pk}&limit=1", 200)
    [session] = one["sessions"]
    rest = check(root, "get", f"/sessions?user={alice.pk}&limit=3&cursor=", 200)
    assert len(rest["sessions"]) == 3
    check(root, "get", f"/sessions?user={alice.pk}&limit=1&cursor={one['next']}", 200)
    check(root, "get", f"/sessions?cursor={one['next']}", 422)
    check(root, "get", "/sessions?browser=Firefox", 200)
    [found] = check(root, "get", "/sessions?guests=only", 200)["sessions"]
    assert (found["id"], found["user_id"]) == (guest.sid, None)
    check(root, "get", f"/sessions/{{id={session['id']}}}", 200)
    check(root, "delete", f"/sessions/{{id={session['id']}}}?message=Call", 204)
    check(root, "get", f"/sessions/{{id={session['id']}}}", 404)
    ids = [each["id"] for each in check(root, "get", f"/users/{{id={alice.pk}}}/sessions?limit=2", 200)["sessions"]]
    assert set(check(root, "post", "/sessions/end", 200, body={"ids": ids})["ended"]) == set(ids)
    check(root, "post", "/sessions/end", 422, body={"ids": []})
    assert check(root, "delete", f"/users/{{id={alice.pk}}}/sessions", 200)["ended"] == len(own) - 3
    block = f"/users/{{id={alice.pk}}}/block"
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    check(root, "get", block, 404)
    check(root, "put", block, 422, body={"until": "yesterday"})
    check(root, "put", block, 200, body={"until": tomorrow, "message": "Call"})
    check(root, "get", block, 200)
    check(root, "delete", block, 204)
    assert check(root, "get", "/counts", 200)["guests"] == 1


@pytest.mark.django_db(transaction=True)
def test_the_history_is_as_the_file_says(history: None) -> None:
    browser = sign_in(User.objects.create_superuser("admin", password=PASSWORD))
    assert browser.get(API + "/history").json()["sign_ins"]
    page = check(browser, "get", "/history?limit=1&state=living", 200)
    assert [each["is_new_device"] for each in page["sign_ins"]]
    check(browser, "get", "/history?browser=Netscape", 422)


def test_who_changes_something_without_a_token_and_who_asks_too_often_get_what_the_file_says(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    check(browser, "delete", "/me/sessions", 403)
    here = sign_in(alice)
    for _ in range(4):
        check(here, "post", "/me/reauthenticate", 403, body={"password": "wrong"})
    check(here, "post", "/me/reauthenticate", 429, body={"password": "wrong"})


def test_all_see_the_file_with_the_path_and_the_cookie_of_the_site(settings: Any) -> None:
    settings.SESSION_COOKIE_NAME, settings.ROOT_URLCONF = "shop", __name__
    clear_url_caches()
    served = Client().get("/elsewhere/v1/openapi.json").json()
    assert served["servers"][0]["url"] == "/elsewhere/v1"
    assert served["components"]["securitySchemes"]["SessionCookie"]["name"] == "sessionid"
    assert served["paths"] == DESCRIBED["paths"]


def page_for(browser: Client) -> Any:
    return browser.get(API + "/", headers={"Accept": "text/html,*/*"})


def test_all_see_the_page_with_scripts_of_this_site_only(db: None) -> None:
    page = page_for(Client())
    assert page.status_code == 200
    scripts = re.findall(r'<script src="([^"]*)"', page.text)
    assert scripts
    assert all(each.startswith("/static/") for each in scripts)
    # What a strict Content-Security-Policy refuses.
    assert not re.search(r"<script(?! src=)|<style| style=| on[a-z]+=", page.text)
    assert (refused := Client(enforce_csrf_checks=True).post(API + "/")).status_code == 405
    assert refused.headers["Content-Type"] == "application/problem+json"


def test_the_page_says_who_asks_and_what_they_can_use(alice: User, root: Client) -> None:
    signed_out, own, all_of_them = (page_for(each).text for each in (Client(), sign_in(alice), root))
    assert 'href="/login/?next=/api/v1/"' in signed_out
    assert "Signed in as" not in signed_out
    assert "<strong>alice</strong>" in own
    assert "your own sessions only" in own
    assert "your own sessions only" not in all_of_them
    assert ['href="/admin/"' in each for each in (signed_out, own, all_of_them)] == [False, False, True]


def test_programs_get_a_list_of_the_operations(db: None) -> None:
    listed = Client().get(API + "/")
    assert "Accept" in listed.headers["Vary"].split(", ")
    assert listed.json()["openapi"] == API + "/openapi.json"
    operations = listed.json()["operations"]
    assert operations[f"DELETE {API}/sessions/{{id}}"] == "End a session"
    assert len(operations) == sum(map(len, DESCRIBED["paths"].values()))


def test_it_names_the_header_of_the_csrf_token_as_the_site_does(settings) -> None:
    assert "`X-Csrftoken`" in description()["info"]["description"]
    settings.CSRF_HEADER_NAME = "HTTP_X_SHOP_TOKEN"
    said = description()["info"]["description"]
    assert "`X-Shop-Token`" in said
    assert "csrftoken" not in said.lower()
