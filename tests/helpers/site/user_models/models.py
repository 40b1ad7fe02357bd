import uuid

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models

KEYS = {
    "uuid": models.UUIDField(primary_key=True, default=uuid.uuid4),
    # Wider than a session can hold: what happens then is tested, too.
    "text": models.CharField(primary_key=True, max_length=300),
}


class User(AbstractUser):
    id = KEYS[settings.USER_KEY]
