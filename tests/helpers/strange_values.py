"""Values whose ``==`` says nothing, and session serializers that can write them."""

import os
import pickle

from django.contrib.auth.models import User
from django.test import override_settings


class WithoutEq:
    """Equal to itself only, as a model instance without a primary key is."""

    def __init__(self, size: int) -> None:
        self.size = size


class Agrees(WithoutEq):
    """Equal to everything, as ``unittest.mock.ANY`` is; or as a model instance is to each other state of its row."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Refuses(WithoutEq):
    """Comparing it gives no bool, as with an array; or raises."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value of an array is ambiguous.")


class PickleSerializer:
    dumps, loads = staticmethod(pickle.dumps), staticmethod(pickle.loads)


class EncryptingSerializer(PickleSerializer):
    """Writes other bytes each time."""

    @staticmethod
    def dumps(data: object) -> bytes:
        return os.urandom(8) + pickle.dumps(data)

    @staticmethod
    def loads(data: bytes) -> object:
        return pickle.loads(data[8:])


def written_by(serializer: type) -> override_settings:
    return override_settings(SESSION_SERIALIZER=f"{__name__}.{serializer.__name__}")


def state_of(value: object) -> object:
    """Return what can be compared: in place of objects, their class and what they hold."""
    if isinstance(value, (list, tuple)):
        return (type(value), [state_of(each) for each in value])
    if isinstance(value, dict):
        return (type(value), {state_of(key): state_of(each) for key, each in value.items()})
    if isinstance(value, frozenset):
        return (frozenset, set(map(state_of, value)))
    if isinstance(value, User):
        return (User, value.pk, value.username)
    return (type(value), state_of(vars(value)) if isinstance(value, WithoutEq) else repr(value))
