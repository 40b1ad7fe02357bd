"""The OpenAPI file and its page. ``tests.helpers.api`` checks all responses against the file."""

import re
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, path

from django_redsess.contrib import api
from tests.helpers.accounts import sign_in
from tests.helpers.api import description

# A site that has the API elsewhere than the shop.
urlpatterns = [path("elsewhere/", api.urls()), path("admin/", admin.site.urls)]

API = "/api/v1"
DESCRIBED = description()


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
