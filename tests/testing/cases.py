"""Tests of a project in processes of its own. They are copied there: see test_projects.py."""

import http.client
import os
import time
import unittest
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client, LiveServerTestCase, TestCase, TransactionTestCase, override_settings

from django_redsess import online
from django_redsess.conf import conf


class Meeting:
    """Two test cases of this kind run in two workers. Each signs in its user 1, and goes on when the other has."""

    def test_a_user_of_another_worker_is_somebody_else(self):
        user = User.objects.create_user("ada", pk=1, is_staff=True)
        with override_settings(REDSESS={"MAX_SESSIONS_PER_USER": 1}):
            self.client.force_login(user)
            meeting = Path(os.environ["MEETING"])
            (meeting / type(self).__name__).touch()
            until = time.monotonic() + 60
            while len(list(meeting.iterdir())) < 2:
                assert time.monotonic() < until, "the other worker has not come"
                time.sleep(0.01)
            assert online.count() == 1
            assert self.client.get("/admin/").status_code == 200


class OneTest(Meeting, TestCase):
    pass


class OtherTest(Meeting, TransactionTestCase):
    pass


class OfClassTest(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.user = User.objects.create_user("bob", is_staff=True)
        cls.signed_in = Client()
        cls.signed_in.force_login(cls.user)

    def test_it_may_end_what_the_class_has_set_up(self):
        assert conf.PREFIX.startswith("test-")
        assert self.signed_in.get("/admin/").status_code == 200
        assert online.end_all() == 1

    def test_it_may_end_it_too(self):
        self.test_it_may_end_what_the_class_has_set_up()

    # Without tblib, Django can't tell of a failure in another process. Of an expected one it can.
    @unittest.expectedFailure
    def test_it_fails_on_purpose(self):
        self.client.force_login(self.user)
        raise AssertionError


class LiveTest(LiveServerTestCase):
    def test_the_server_is_in_the_store_of_the_test(self):
        user = User.objects.create_user("cleo", is_staff=True)
        self.client.force_login(user)
        connection = http.client.HTTPConnection(self.server_thread.host, self.server_thread.port)
        connection.request("GET", "/admin/", headers={"Cookie": f"sessionid={self.client.cookies['sessionid'].value}"})
        assert connection.getresponse().status == 200
        connection.close()
        assert online.count() == 1


@pytest.mark.django_db
def test_a_function_has_its_own_store(redsess_store):
    assert redsess_store == conf.PREFIX
    assert online.count() == 0
    Client().force_login(User.objects.create_user("dora"))
    assert online.count() == 1


test_another_function_too = test_a_function_has_its_own_store
