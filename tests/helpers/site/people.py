"""
Users who are in no table: everybody who has a number.

Threads that share a test's database would wait for each other there.
"""

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User

passwords: dict[int, str] = {}


def person(user_id: int | str) -> User:
    return User(pk=int(user_id), username=f"user {user_id}", password=passwords.get(int(user_id), "first"))


class InMemory(BaseBackend):
    """Everybody who has a number."""

    def get_user(self, user_id: int) -> User:
        return person(user_id)
