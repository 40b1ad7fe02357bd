"""The limit of sessions per user in a crowd: many sign-ins at once, sign-outs meanwhile, and double clicks."""

from collections.abc import Iterator

import pytest

from benchmarks.fill import fill
from django_redsess import online
from tests.helpers.serving import Answer, Site, serving
from tests.helpers.sign_ins import ENDING, POLICIES, named, sids_of, sign_in_before
from tests.helpers.site.people import person
from tests.helpers.store import sid_of, stored

pytestmark = pytest.mark.both_servers

CROWD = 40
LIMIT = 3


@pytest.fixture
def served(sign_ins_site) -> Iterator[Site]:
    """The site of tests/helpers/site, served by real threads."""
    with serving(CROWD) as site:
        yield site


def who(site: Site, cookies: list[str]) -> list[Answer]:
    return [site.ask("/held/who/", cookie) for cookie in cookies]


def guests_of(site: Site, count: int) -> Iterator[str]:
    """Have so many guests come, one after the other, in whatever partition."""
    for _ in range(count):
        yield str(site.ask("/held/write/colour/blue/").cookie)


def asked_by(site: Site, guests: int) -> list[tuple[str, str | None]]:
    """Prepare so many guests with a session, and visitors without up to a crowd, who all sign in as user 1."""
    return [("/held/sign-in/1/", cookie) for cookie in [*guests_of(site, guests), *[None] * (CROWD - guests)]]


@pytest.mark.parametrize("policy", POLICIES)
def test_of_many_sign_ins_at_once_as_many_are_left_as_the_limit_allows(served, redis, set_limit, policy) -> None:
    set_limit(LIMIT, policy)
    bystander = served.ask("/held/sign-in/2/").cookie
    asked = asked_by(served, CROWD // 2)
    answers = served.ask_together(*asked)
    cookies = [str(answer.cookie) for answer in answers if answer.status == 200]
    seen = who(served, cookies)
    if policy == "refuse":
        assert sorted(answer.status for answer in answers) == [200] * LIMIT + [403] * (CROWD - LIMIT)
        assert [answer.text for answer in seen] == ["1"] * LIMIT
        # Nobody else has a cookie that works, a guest's of before included.
        assert {answer.cookie for answer in answers if answer.status == 403} <= {None, ""}
        assert {answer.text for answer in who(served, [str(cookie) for _, cookie in asked if cookie])} <= {"nobody"}
    else:
        assert {answer.status for answer in answers} == {200}
        assert sorted(answer.text for answer in seen) == ["1"] * LIMIT + ["nobody"] * (CROWD - LIMIT)
        assert {answer.ended for answer in seen if answer.text == "nobody"} == {"replaced"}
        assert {answer.ended for answer in seen if answer.text == "1"} == {""}
    left = {sid_of(cookie) for cookie, answer in zip(cookies, seen, strict=True) if answer.text == "1"}
    assert (sids_of("1"), stored(redis)) == (left, LIMIT + 1)
    assert served.ask("/held/who/", bystander).text == "2"


@pytest.mark.parametrize("policy", POLICIES)
def test_sign_ins_while_others_of_the_user_sign_out_never_leave_too_many(served, redis, set_limit, policy: str) -> None:
    set_limit(LIMIT, policy)
    members = [str(each.session_key) for each in sign_in_before(redis, "1", *range(300, 300 - LIMIT, -1))]
    sign_outs = [("/held/sign-out/", member) for member in members]
    answers = served.ask_together(*sign_outs, *asked_by(served, 10)[: CROWD - LIMIT])
    signed_in = [answer for answer in answers[LIMIT:] if answer.status == 200]
    assert {answer.status for answer in answers[LIMIT:]} <= {200, 403}
    left = sids_of("1")
    assert stored(redis) == len(left)
    assert [answer.text for answer in who(served, members)] == ["nobody"] * LIMIT
    if policy == "refuse":
        # None that was let in goes again.
        assert left == {sid_of(str(answer.cookie)) for answer in signed_in}
        # There is room up to the limit, and no more.
        later = [served.ask("/held/sign-in/1/").status for _ in range(LIMIT + 1)]
        assert later == [200] * (LIMIT - len(left)) + [403] * (len(left) + 1)
    else:
        assert (len(signed_in), len(left)) == (CROWD - LIMIT, LIMIT)


@pytest.mark.parametrize("policy", ENDING)
def test_sign_ins_at_once_meet_a_limit_that_was_lowered(served, redis, set_limit, policy: str) -> None:
    # More than a script takes out: each of the sign-ins may find that it has to go on.
    fill(redis, 700, users=1, viewed=0)
    set_limit(LIMIT, policy)
    answers = served.ask_together(*asked_by(served, 10)[:20])
    assert {answer.status for answer in answers} == {200}
    seen = who(served, [str(answer.cookie) for answer in answers])
    assert [answer.text for answer in seen].count("1") == LIMIT
    assert len(sids_of("1")) == stored(redis) == LIMIT


@pytest.mark.parametrize("policy", POLICIES)
def test_a_double_click_with_room_for_one_never_leaves_two_and_winners_stay(served, redis, set_limit, policy) -> None:
    set_limit(1, policy)
    for guest in guests_of(served, 5):
        answers = served.ask_together(*[("/held/sign-in/1/", guest)] * 2)
        good = [answer for answer in answers if answer.status == 200]
        assert {answer.status for answer in answers} <= {200, 400, 403}
        signed_in = [answer for answer in who(served, [str(answer.cookie) for answer in good]) if answer.text == "1"]
        # Who is refused ends the guest's session, and so the other click may find that gone.
        assert len(signed_in) in ([len(good)] if policy == "refuse" else [1])
        assert len(signed_in) <= 1
        assert len(sids_of("1")) == stored(redis) == len(signed_in)
        online.end_user(person(1))


@pytest.mark.parametrize("late", [False, True], ids=["read before", "read after"])
def test_the_second_of_a_double_click_is_refused_and_the_first_stays_signed_in(served, redis, set_limit, late) -> None:
    set_limit(1, "refuse")
    for guest in guests_of(served, 3):
        let_on = None if late else served.ask_held("/held/sign-in/1/", guest)
        winner = served.ask("/held/sign-in/1/", guest)
        loser = let_on() if let_on else served.ask("/held/sign-in/1/", guest)
        assert (winner.status, loser.status) == (200, 403)
        assert served.ask("/held/who/", winner.cookie).text == "1"
        assert (sids_of("1"), stored(redis)) == ({sid_of(str(winner.cookie))}, 1)
        # The browser has the winner's cookie by now, or will have it.
        assert loser.cookie is None
        online.end_user(person(1))


@pytest.mark.parametrize("full", [True, False], ids=["full", "with room"])
def test_a_sign_in_whose_guest_was_ended_meanwhile_is_answered_400_or_403(served, redis, set_limit, full: bool) -> None:
    set_limit(1, "refuse")
    there = sign_in_before(redis, "1", 100) if full else []
    for guest in guests_of(served, 3):
        let_on = served.ask_held("/held/sign-in/1/", guest)
        online.end(sid_of(guest))
        answer = let_on()
        assert answer.status in (400, 403)
        assert answer.cookie in (None, "")
        assert sids_of("1") == named(*there)
        assert stored(redis) == len(there)
