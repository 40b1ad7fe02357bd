"""Mails of the demo name the shop, and lead to the demo."""

import pytest
from django.core import mail
from django.core.mail import EmailMultiAlternatives

from testproject.mails import send

pytestmark = pytest.mark.unit


def test_a_mail_names_the_shop_and_its_links_lead_to_the_demo(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_SITE_URL": "http://127.0.0.1:8123"}
    text = "New sign-in at 127.0.0.1:8123: http://127.0.0.1:8123/account/sessions/"
    message = EmailMultiAlternatives("At 127.0.0.1:8123", text, to=["amelia@shop.example"])
    message.attach_alternative(f"<p>{text}</p>", "text/html")
    send(message)
    [sent] = mail.outbox
    expected = "New sign-in at shop.example: http://127.0.0.1:8123/account/sessions/"
    assert (sent.subject, sent.body) == ("At shop.example", expected)
    assert [tuple(each) for each in sent.alternatives] == [(f"<p>{expected}</p>", "text/html")]
