"""What the scripts in lua/session.lua take, by name, where a test does not say otherwise."""

from typing import Any

from tests.lua.conftest import AGE, Store

HOUR = 3_600_000
NO_LIMIT = {"limit": None, "full_at": None}


def adding(store: Store, name: str, user: str = "", **other: Any) -> dict[str, Any]:
    """What create_fast takes for a new session."""
    keys = store.partition
    listed: dict[str, Any] = {"seen_list": keys.guests}
    if user:
        lists = {"online_user": keys.online_user, "online_user_of": keys.online_user_of(""), "blocked": keys.blocked}
        listed = {"seen_list": keys.recent, **lists}
    made = {"sid": store.sid(name), "record": store.record(name, user), "user_id": user, **NO_LIMIT}
    return {**listed, **made, "at": store.now, "due": store.now + AGE, **other}


def written(store: Store, name: str, user: str = "", **other: Any) -> dict[str, Any]:
    """What the other scripts take that write a record."""
    made = {"sid": store.sid(name), "record": store.record(name, user), "user_id": user}
    times = {"login_time": store.now if user else "", "at": store.now, "due": store.now + AGE}
    return {**made, **times, **other}


def creating(store: Store, name: str, user: str = "", **other: Any) -> dict[str, Any]:
    return {**written(store, name, user), **NO_LIMIT, "policy": "", "viewed": None, **other}


def saving(store: Store, name: str, user: str = "", **other: Any) -> dict[str, Any]:
    return {**written(store, name, user), "later_stays": False, "loaded": b"", **other}


def rotating(store: Store, old: str, name: str, user: str = "", **other: Any) -> dict[str, Any]:
    return {
        **written(store, name, user),
        "old_sid": store.sid(old),
        "loaded": b"",
        **NO_LIMIT,
        "policy": "",
        "follows": False,
        **other,
    }


def ending(**other: Any) -> dict[str, Any]:
    nobody = {"kept_sids": (), "kept_users": (), "began_by": None, "since": None}
    return {"reason": "kicked", "message": "", **nobody, **other}
