"""What ``REDSESS = {"PROFILE": "strict"}`` does to a site: it supplies defaults, and keys that are given win."""

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings

from django_redsess.conf import PROFILES, SETTINGS, conf
from tests.helpers.accounts import PASSWORD, count, name_in, sid_of, sign_in, told_to
from tests.helpers.store import make_older

pytestmark = pytest.mark.django_db

MINUTE, HOUR = 60, 3600
END_OTHERS = "/account/sessions/end-others/"


@pytest.fixture
def strict(site):
    site.REDSESS = {"PROFILE": "strict"}
    return site


@pytest.mark.usefixtures("strict")
def test_a_session_that_is_not_used_for_half_an_hour_is_over(alice: User, redis) -> None:
    here = sign_in(alice)
    make_older(redis, sid_of(here), 29 * MINUTE)
    assert name_in(here) == "alice"
    # A deadline that each request moves has a slack of a twentieth.
    make_older(redis, sid_of(here), 32 * MINUTE)
    assert told_to(here) == ("expired", "")
    assert name_in(here) != "alice"


@pytest.mark.usefixtures("strict")
def test_a_session_in_use_is_over_twelve_hours_after_the_sign_in(alice: User, redis) -> None:
    here = sign_in(alice)
    for _ in range(28):
        make_older(redis, sid_of(here), 25 * MINUTE)
        assert name_in(here) == "alice"
    make_older(redis, sid_of(here), 21 * MINUTE)
    assert name_in(here) != "alice"


@pytest.mark.usefixtures("strict")
def test_the_sixth_sign_in_of_a_user_ends_the_first_session(alice: User) -> None:
    first, *others = [sign_in(alice) for _ in range(6)]
    assert count(alice) == 5
    assert told_to(first)[0] == "replaced"
    assert [name_in(each) for each in others] == ["alice"] * 5


@pytest.mark.usefixtures("strict")
def test_the_password_is_asked_for_again_before_other_sessions_end(alice: User, redis) -> None:
    here, _ = sign_in(alice), sign_in(alice)
    make_older(redis, sid_of(here), 6 * MINUTE)
    assert 'type="password"' in here.post(END_OTHERS).text
    assert count(alice) == 2
    here.post(END_OTHERS, {"password": PASSWORD})
    assert count(alice) == 1


def test_a_key_that_is_given_wins_and_changes_hold_at_once(alice: User, redis) -> None:
    with override_settings(REDSESS={"PROFILE": "strict", "IDLE_TIMEOUT": None, "MAX_SESSIONS_PER_USER": 2}):
        here, *_ = [sign_in(alice) for _ in range(2)]
        make_older(redis, sid_of(here), 2 * HOUR)
        assert name_in(here) == "alice"
        assert conf.ABSOLUTE_TIMEOUT == 12 * HOUR
        sign_in(alice)
        assert count(alice) == 2
    with override_settings(REDSESS={"PROFILE": None}):
        assert (conf.IDLE_TIMEOUT, conf.ABSOLUTE_TIMEOUT, conf.MAX_SESSIONS_PER_USER) == (None, None, None)


@pytest.mark.unit
def test_a_profile_has_values_that_its_settings_allow_and_no_other_profile() -> None:
    for values in PROFILES.values():
        assert "PROFILE" not in values
        assert all(SETTINGS[name].rule.allows(value) for name, value in values.items())


def test_a_site_does_not_start_with_a_profile_that_there_is_not(site) -> None:
    """A server runs no system checks: it would serve without what the profile was to set."""
    for name in ("Strict", "", ["strict"], True):
        site.REDSESS = {"PROFILE": name}
        with pytest.raises(ImproperlyConfigured, match=r"^REDSESS\['PROFILE'\] must be None, or 'strict'; it is "):
            Client().get("/plain/")
