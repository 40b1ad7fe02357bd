"""The demo's mails: they name the shop as its visitors know it, and not the port on which the demo is served."""

import re
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives

ADDRESS = "shop.example"
"""The domain of the mails' sender, too. It leads nowhere: links go to the demo."""


def send(message: EmailMultiAlternatives) -> None:
    """Send a mail of the history: the function of the setting ``HISTORY_MAILER`` in the demo."""
    name = re.compile(rf"(?<!//){re.escape(urlsplit(settings.REDSESS['HISTORY_SITE_URL']).netloc)}")
    message.subject = name.sub(ADDRESS, str(message.subject))
    message.body = name.sub(ADDRESS, str(message.body))
    texts = [(name.sub(ADDRESS, str(content)), str(kind)) for content, kind in message.alternatives]
    message.alternatives = []
    for content, kind in texts:
        message.attach_alternative(content, kind)
    message.send()
