"""Copies of blocks: what the server has forgotten comes back, and what was lifted does not."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.history import blocks, database
from django_redsess.contrib.history.models import BlockCopy
from tests.helpers.store import keyspace

pytestmark = pytest.mark.usefixtures("history", "partitions")


@pytest.fixture
def alice(transactional_db) -> User:
    return User.objects.create_user("alice")


def in_an_hour() -> object:
    # The server has milliseconds.
    return (timezone.now() + timedelta(hours=1)).replace(microsecond=0)


def test_a_block_that_the_server_has_forgotten_comes_back_and_ends_who_came_meanwhile(
    redis, alice, new_session
) -> None:
    admin = User.objects.create_user("admin")
    until = in_an_hour()
    online.block(alice, until=until, message="Call us.", by=admin)
    redis.flushall()
    session = new_session(str(alice.pk))
    call_command("history", "--repair", verbosity=0)
    assert online.block_of(alice) == online.Block(str(alice.pk), until, "Call us.", str(admin.pk))
    assert online.get(session.sid) is None
    # One that is there is left alone.
    assert list(blocks.restore_blocks()) == []


def test_a_lifted_block_and_one_that_is_over_stay_away(redis, alice) -> None:
    online.block(alice, until=in_an_hour())
    online.unblock(alice)
    assert list(blocks.restore_blocks()) == []
    BlockCopy.objects.create(user=alice, until=timezone.now() - timedelta(seconds=1))
    assert list(blocks.restore_blocks()) == []
    assert not BlockCopy.objects.exists()
    assert online.block_of(alice) is None


def test_a_block_that_is_lifted_while_it_is_put_back_stays_away(redis, alice, monkeypatch) -> None:
    online.block(alice, until=in_an_hour())
    redis.flushall()
    restore_and_end = blocks.restore_and_end

    def lifted_meanwhile(block: online.Block) -> Iterator[Any]:
        online.unblock(alice)
        return restore_and_end(block)

    monkeypatch.setattr(blocks, "restore_and_end", lifted_meanwhile)
    assert list(blocks.restore_blocks()) == [(0, 0)]
    assert online.block_of(alice) is None


@pytest.fixture
def unnoticed(history):
    """Return a function that has something happen while the database fails: copies stay as they are."""

    def do(action, *arguments, **options):
        blocks.disconnect_copies()
        action(*arguments, **options)
        blocks.connect_copies()

    return do


def test_a_block_that_was_lifted_while_the_database_failed_stays_away(redis, alice, unnoticed) -> None:
    online.block(alice, until=in_an_hour())
    unnoticed(online.unblock, alice)
    call_command("history", "--repair", verbosity=0)
    assert online.block_of(alice) is None
    assert not BlockCopy.objects.exists()


def test_a_block_that_was_made_while_the_database_failed_gets_a_copy(redis, alice, unnoticed) -> None:
    until = in_an_hour()
    unnoticed(online.block, alice, until=until, message="Call us.")
    call_command("history", "--repair", verbosity=0)
    redis.flushall()
    call_command("history", "--repair", verbosity=0)
    assert online.block_of(alice) == online.Block(str(alice.pk), until, "Call us.")


def test_a_block_that_this_site_has_not_set_gets_no_copy(redis, alice) -> None:
    partition, until = keyspace().of_user(str(alice.pk)), in_an_hour()
    online.block(alice, until=until, message="Call us.")
    # The words of the site beside another time, and words of one's own.
    for text in (redis.get(partition.block_of(str(alice.pk))), b"Call me.\n1\n" + b"0" * 24):
        BlockCopy.objects.all().delete()
        redis.zadd(partition.blocked, {str(alice.pk): (until + timedelta(days=365)).timestamp() * 1000})
        redis.set(partition.block_of(str(alice.pk)), text)
        call_command("history", "--repair", verbosity=0)
        assert not BlockCopy.objects.exists()
    assert online.block_of(alice).message == "Call me."
    redis.flushall()


def test_a_block_that_was_over_at_a_sign_in_is_not_put_back(redis, alice, new_session) -> None:
    partition = keyspace().of_user(str(alice.pk))
    online.block(alice, until=in_an_hour(), message="Call us.")
    # The server's clock was fast for a while.
    redis.zadd(partition.blocked, {str(alice.pk): 1})
    session = new_session(str(alice.pk))
    call_command("history", "--repair", verbosity=0)
    assert online.get(session.sid) is not None
    assert online.block_of(alice) is None
    assert not BlockCopy.objects.exists()
    # A new block is one.
    online.block(alice, until=in_an_hour(), message="Call us.")
    assert online.block_of(alice).message == BlockCopy.objects.get().stored_message == "Call us."


def test_a_change_that_was_made_while_the_database_failed_is_copied(redis, alice, unnoticed) -> None:
    until = in_an_hour()
    online.block(alice, until=until + timedelta(days=1))
    unnoticed(online.block, alice, until=until)
    call_command("history", "--repair", verbosity=0)
    assert online.block_of(alice).until == BlockCopy.objects.get().until == until


def test_a_database_that_fails_keeps_nobody_from_blocking(alice, caplog) -> None:
    with connection.schema_editor() as editor:
        editor.delete_model(BlockCopy)
    try:
        online.block(alice, until=in_an_hour())
        assert online.block_of(alice) is not None
        assert len(caplog.records) == 1
    finally:
        database.losses.reset()
        with connection.schema_editor() as editor:
            editor.create_model(BlockCopy)


def test_a_copy_goes_with_its_user(alice) -> None:
    online.block(alice, until=in_an_hour())
    alice.delete()
    assert not BlockCopy.objects.exists()
    call_command("history", "--repair", verbosity=0)
    assert not BlockCopy.objects.exists()
