import html
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.backends.base import UpdateError
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.record import Client as Visitor
from tests.test_online import sign_in

pytestmark = pytest.mark.django_db

LIST = "/admin/django_redsess/onlinesession/"
END = LIST + "end/"


@pytest.fixture
def users(db) -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def sids(users, new_session) -> dict[str, str]:
    """A session of each user, alice's the oldest."""
    return dict(zip(users, sign_in(new_session, *(str(user.pk) for user in users.values())), strict=True))


def staff(client: Client, *permissions: str) -> Client:
    """Sign ``client`` in as a member of staff with these permissions only."""
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def rows(response) -> list[str]:
    """Return the first cell of each row, as text."""
    cells = re.findall(r'<th class="field-user"[^>]*>(.*?)</th>|<td class="field-user"[^>]*>(.*?)</td>', response.text)
    return [re.sub("<[^>]*>", "", first or second) for first, second in cells]


def select(client: Client, *sids: str, **more: str):
    return client.post(LIST, {"action": "end_selected", "_selected_action": sids, **more})


def test_list_shows_who_is_online_newest_sign_in_first(admin_client, sids) -> None:
    assert rows(admin_client.get(LIST)) == ["carol", "bob", "alice", "admin"]
    assert rows(admin_client.get(LIST + "?o=2")) == ["admin", "alice", "bob", "carol"]


def test_list_shows_address_and_browser_in_words(admin_client, new_session) -> None:
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    session = new_session("12345")
    session.opened_by(Visitor("192.0.2.7", firefox))
    session.save()
    page = admin_client.get(LIST).text
    assert "192.0.2.7" in page
    assert "Firefox 140 on Linux" in page


def test_a_user_agent_full_of_markup_is_shown_as_text(admin_client, new_session) -> None:
    session = new_session("1")
    session.opened_by(Visitor("192.0.2.7", "<script>alert('x')</script>"))
    session.save()
    assert "<script>alert" not in admin_client.get(LIST).text


def test_neither_list_nor_session_page_shows_a_session_key(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    keys = [session.session_key, admin_client.session.session_key]
    for url in (LIST, f"{LIST}{quote(session.sid)}/change/"):
        page = admin_client.get(url)
        assert page.status_code == 200
        assert not any(key in page.text for key in keys)


def test_an_empty_list_says_so(client) -> None:
    staff(client, "view_onlinesession")
    assert "0 online sessions" in client.get(LIST + "?q=nobody").text


def test_search_finds_part_of_a_user_name(admin_client, sids) -> None:
    assert rows(admin_client.get(LIST + "?q=ARO")) == ["carol"]
    assert rows(admin_client.get(LIST + "?q=nobody")) == []


def test_search_finds_a_session_by_its_id(admin_client, sids) -> None:
    assert rows(admin_client.get(LIST, {"q": sids["bob"]})) == ["bob"]


@pytest.mark.parametrize("term", ["%", "_", "\\", "*", "x" * 10_000, "' OR 1=1 --", "{redsess}:login"])
def test_a_strange_search_term_finds_nothing_and_breaks_nothing(admin_client, sids, term) -> None:
    response = admin_client.get(LIST, {"q": term})
    assert response.status_code == 200
    assert rows(response) == []


def test_a_search_that_fits_too_many_users_says_that_it_is_cut(admin_client) -> None:
    User.objects.bulk_create(User(username=f"shopper{number}") for number in range(1001))
    assert "More than 1000 users match" in admin_client.get(LIST + "?q=shopper").text
    assert "More than" not in admin_client.get(LIST + "?q=shopper99").text


def test_pages_hold_100_sessions(admin_client, new_session) -> None:
    for _ in range(149):
        new_session("12345")
    assert len(rows(admin_client.get(LIST))) == 100
    assert len(rows(admin_client.get(LIST + "?p=2"))) == 50


@pytest.mark.parametrize("query", ["p=999999", "p=x", "o=77", "o=-1.2", "user_id=1", "all="])
def test_a_strange_query_is_answered(admin_client, sids, query) -> None:
    assert admin_client.get(f"{LIST}?{query}", follow=True).status_code == 200


def test_an_error_in_the_queryset_is_not_hidden(admin_client, sids) -> None:
    assert "e=1" not in admin_client.get(LIST).headers.get("Location", "")
    assert admin_client.get(LIST + "?address=1").headers["Location"].endswith("?e=1")


def test_an_unknown_session_page_leads_back(admin_client) -> None:
    assert admin_client.get(f"{LIST}{'x' * 20}/change/").status_code == 302


def test_names_come_in_one_query_a_page(admin_client, sids, django_assert_max_num_queries) -> None:
    # Who asks (the user), the user table for the names, and nothing for each row.
    with django_assert_max_num_queries(2):
        admin_client.get(LIST)


def test_a_page_takes_three_round_trips_beside_that_of_the_request_itself(admin_client, sids, commands) -> None:
    admin_client.get(LIST)
    commands()
    admin_client.get(LIST)
    assert commands()["evalsha"] == 1 + 3


def test_ending_asks_first(admin_client, sids) -> None:
    response = select(admin_client, sids["bob"], sids["carol"])
    assert "these 2 sessions" in response.text
    assert "bob" in response.text
    assert online.get(sids["bob"]) is not None


def test_ending_after_the_question_ends_and_says_so(admin_client, sids) -> None:
    page = select(admin_client, sids["bob"], sids["carol"]).text
    field = html.unescape(re.search(r'name="sids" value="([^"]*)"', page)[1])
    response = admin_client.post(END, {"sids": field}, follow=True)
    assert "2 sessions were ended." in response.text
    assert online.get(sids["bob"]) is None
    assert online.get(sids["alice"]) is not None


def test_each_end_is_a_line_in_the_history_of_its_user(admin_client, admin_user, sids, users) -> None:
    key = admin_client.session.session_key
    admin_client.post(END, {"sids": f"{sids['bob']} {sids['carol']}"})
    entries = LogEntry.objects.all()
    assert {entry.object_id for entry in entries} == {str(users["bob"].pk), str(users["carol"].pk)}
    assert {entry.user for entry in entries} == {admin_user}
    assert all(key not in entry.change_message for entry in entries)
    history = admin_client.get(f"/admin/auth/user/{users['bob'].pk}/history/").text
    assert f"Ended the session {sids['bob']}, signed in" in history


def test_ending_what_is_gone_is_no_error_and_says_so(admin_client, sids) -> None:
    online.end(sids["bob"])
    response = admin_client.post(END, {"sids": sids["bob"]}, follow=True)
    assert "1 session was not ended: it was over already" in response.text
    assert not LogEntry.objects.exists()


def test_an_end_while_a_request_is_under_way_is_not_undone(admin_client, sids, users) -> None:
    shopper = Client()
    shopper.force_login(users["alice"])
    late = SessionStore(shopper.session.session_key)
    late["basket"] = {"lamp": 1}
    admin_client.post(END, {"sids": late.sid})
    with pytest.raises(UpdateError):
        late.save()
    assert not shopper.get("/").wsgi_request.user.is_authenticated


def test_the_own_session_is_pointed_out(admin_client, sids) -> None:
    own = admin_client.session.sid
    assert "this is your own session" in select(admin_client, own).text
    assert "this is your own session" not in select(admin_client, sids["bob"]).text


@pytest.mark.parametrize("storage", ["cookie.CookieStorage", "session.SessionStorage"])
def test_ending_the_own_session_leads_to_the_sign_in_page(admin_client, settings, storage) -> None:
    settings.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    response = admin_client.post(END, {"sids": admin_client.session.sid}, follow=True)
    assert response.status_code == 200
    assert response.redirect_chain[-1][0].startswith("/admin/login/")
    assert online.count() == 0


def test_an_action_on_a_search_result_takes_its_selection(admin_client, sids) -> None:
    page = admin_client.post(f"{LIST}?q=bob", {"action": "end_selected", "_selected_action": [sids["bob"]]}).text
    assert "this session?" in page
    assert f'value="{sids["bob"]} "' in page


def test_all_that_match_can_be_chosen_over_several_pages(admin_client, new_session) -> None:
    for _ in range(120):
        new_session("12345")
    first = online.sessions(limit=1)[0].sid
    page = select(admin_client, first, select_across="1").text
    assert "these 121 sessions" in page


def test_more_than_a_thousand_at_once_are_refused_and_none_is_ended(admin_client, new_session) -> None:
    for _ in range(1001):
        new_session("12345")
    first = online.sessions(limit=1)[0].sid
    response = select(admin_client, first, select_across="1")
    assert response.status_code == 302
    assert "At most 1000 sessions can be ended at once" in admin_client.get(response.headers["Location"]).text
    assert online.count() == 1002


def test_get_ends_nothing(admin_client, sids) -> None:
    assert admin_client.get(END, {"sids": sids["bob"]}).status_code == 405
    assert online.get(sids["bob"]) is not None


def test_post_without_a_csrf_token_ends_nothing(admin_user, sids) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(END, {"sids": sids["bob"]}).status_code == 403
    assert online.get(sids["bob"]) is not None


def test_who_may_not_end_ends_nothing(client, sids) -> None:
    staff(client, "view_onlinesession")
    assert "End selected sessions" not in client.get(LIST).text
    assert client.post(END, {"sids": sids["bob"]}).status_code == 403
    assert online.get(sids["bob"]) is not None


def test_who_may_end_ends(client, sids) -> None:
    staff(client, "view_onlinesession", "end_onlinesession")
    assert "End selected sessions" in client.get(LIST).text
    client.post(END, {"sids": sids["bob"]})
    assert online.get(sids["bob"]) is None


def test_who_may_not_view_sees_nothing(client, sids) -> None:
    staff(client)
    assert client.get(LIST).status_code == 403


def test_strangers_are_asked_to_sign_in(client, sids) -> None:
    assert client.get(LIST).status_code == 302
    assert client.post(END, {"sids": sids["bob"]}).status_code == 302
    assert online.get(sids["bob"]) is not None


def test_a_superusers_session_is_ended_by_superusers_only(client, admin_client, sids) -> None:
    superusers = admin_client.session.sid
    staff(client, "view_onlinesession", "end_onlinesession")
    assert "which only a superuser can end" in select(client, superusers).text
    client.post(END, {"sids": superusers})
    assert online.get(superusers) is not None


def test_the_pages_speak_german(admin_client, sids, settings) -> None:
    settings.LANGUAGE_CODE = "de"
    assert "Angemeldet seit" in admin_client.get(LIST).text
    assert "Diese Sitzung beenden?" in select(admin_client, sids["bob"]).text


def test_sessions_cannot_be_added_or_deleted(admin_client, sids) -> None:
    assert admin_client.get(LIST + "add/").status_code == 403
    assert admin_client.post(f"{LIST}{sids['bob']}/delete/").status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).text


def test_deleting_a_user_in_the_admin_does_not_ask_the_missing_table(admin_client, users, sids) -> None:
    url = f"/admin/auth/user/{users['bob'].pk}/delete/"
    assert admin_client.get(url).status_code == 200
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert "deleted user" in admin_client.get(LIST).text
