"""What a program of administrators does with the client that was generated from the description: ``walk.py <site>``."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from sessions_api.api.everyones_sessions import (
    block_user,
    end_session,
    get_block,
    get_session,
    list_sessions,
    list_sign_ins,
    unblock_user,
)
from sessions_api.api.your_own_sessions import end_own_sessions, list_own_sessions, reauthenticate
from sessions_api.models import BlockUser, Password, Problem
from support import all_sessions, sign_in

SITE, NAME, PASSWORD, USER = sys.argv[1:]


def refused(answer: Any, status: int) -> str:
    """Return what a problem says in detail, and how its type ends."""
    assert isinstance(answer, Problem), answer
    assert answer.status == status, answer
    return f"{answer.detail} {answer.type_.rpartition('#')[2]}"


here, there = (sign_in(SITE, NAME, PASSWORD) for _ in range(2))

first = list_sessions.sync(client=here, user=[USER], limit=2)
second = list_sessions.sync(client=here, user=[USER], limit=2, cursor=first.next_cursor)
assert (len(first.sessions), len(second.sessions), second.next_cursor) == (2, 1, None)
ids = [each.id for each in (*first.sessions, *second.sessions)]
assert [each.id for each in all_sessions(here, user=[USER], limit=1)] == ids
shown = get_session.sync(ids[0], client=here)
assert (shown.id, shown.user_id, shown.is_current) == (ids[0], USER, False)

assert end_session.sync_detailed(ids[0], client=here, message="Call us.").status_code == 204
assert "no session" in refused(get_session.sync(ids[0], client=here), 404)
assert "limit" in refused(list_sessions.sync(client=here, limit=101), 422)

until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
assert block_user.sync(USER, client=here, body=BlockUser(until=until)).ended == 2
assert get_block.sync(USER, client=here).until == until
assert unblock_user.sync_detailed(USER, client=here).status_code == 204
assert "not blocked" in refused(get_block.sync(USER, client=here), 404)

past = list_sign_ins.sync(client=here, user=[USER]).sign_ins
assert {(each.reason, each.message) for each in past if each.id} == {("kicked", "Call us."), ("kicked", "")}

here.get_httpx_client().get(f"{SITE}/later/")
assert "password-required" in refused(end_own_sessions.sync(client=here), 403)
assert "password" in refused(reauthenticate.sync(client=here, body=Password("wrong")), 403)
assert reauthenticate.sync_detailed(client=here, body=Password(PASSWORD)).status_code == 204
assert end_own_sessions.sync(client=here).ended == 1
assert [each.is_current for each in list_own_sessions.sync(client=here).sessions] == [True]
refused(list_own_sessions.sync(client=there), 401)
