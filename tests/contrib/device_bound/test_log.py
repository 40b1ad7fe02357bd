"""What the log has of a request without proof."""

import logging

import pytest
from django.test import Client

from tests.helpers.device_browser import DeviceBrowser

pytestmark = pytest.mark.usefixtures("users_in_no_table")


@pytest.mark.usefixtures("device_bound")
@pytest.mark.parametrize(("site", "loggers"), [("none", ["django.security.DeviceBound"]), ("cross-site", [])])
def test_a_refusal_is_logged_once_and_a_link_of_another_site_not_at_all(caplog, site: str, loggers) -> None:
    owner, thief = DeviceBrowser(Client()), Client(REMOTE_ADDR="203.0.113.9")
    owner.sign_in_as(1)
    thief.cookies["sessionid"] = owner.client.cookies["sessionid"].value
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    with caplog.at_level(logging.INFO):
        assert thief.get("/held/who/", headers=headers).status_code == 401
    assert [each.name for each in caplog.records] == loggers
