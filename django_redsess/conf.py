"""The settings of this app: the dict ``REDSESS``. Every key is optional, and :class:`Conf` is the table of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from http.cookies import Morsel
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

T = TypeVar("T")

END_MESSAGES: Mapping[str, str | Promise] = {
    "known_password": gettext_lazy("Somebody else may have known your password. Please change it."),
    "lost_device": gettext_lazy("This device was reported lost."),
    "new_permissions": gettext_lazy("Your permissions have changed. Please sign in again."),
}

LARGEST = 10**12
"""The largest number of a setting or an option. Lua writes larger ones than 10**14 without their last digits."""

MESSAGE_MAX = 200
"""The most characters of a message to the users whose sessions end."""

CODE_MAX = 49
"""The most characters of the code of a ready-made message."""

REFUSE, OBSERVE = "refuse", "observe"
POLICIES = ("end_oldest", "end_least_recent", REFUSE)
"""The effects that a sign-in above ``MAX_SESSIONS_PER_USER`` may have."""

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "strict": {
        "IDLE_TIMEOUT": 30 * 60,
        "ABSOLUTE_TIMEOUT": 12 * 60 * 60,
        "MAX_SESSIONS_PER_USER": 5,
        "SESSION_LIMIT_POLICY": "end_oldest",
        "REAUTHENTICATE": True,
        "END_ON_DEACTIVATION": True,
        "END_ON_DELETION": True,
        "END_ON_PASSWORD_CHANGE": True,
    }
}
"""
The defaults that a profile sets, by its name. docs/explanation/asvs.rst has the reasons for each value.

A value that is also the default is named, too: a later default must not weaken a site with the profile.
"""

prefix_of_test: Callable[[], str | None] | None = None
"""Returns the prefix of a test's own store, or None. ``testing`` sets it."""

FOLDER_OF_TESTS = "REDSESS_FOLDER_OF_TESTS"
"""The environment variable by which processes that tests start find the test's store: see ``testing``."""


class Rule(NamedTuple):
    """The values that a setting allows: ``allows`` tests a value, ``words`` describe the rule in an error."""

    allows: Callable[[Any], bool]
    words: str


def is_integer(value: object, least: int = 1, most: int = LARGEST) -> bool:
    """Tell whether ``value`` is an integer from ``least`` to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_path(value: object) -> bool:
    """Tell whether ``value`` may be the dotted path of a function."""
    return isinstance(value, str) and "." in value


def _are(value: object, allows: Callable[[Any], bool]) -> bool:
    return isinstance(value, list | tuple) and all(map(allows, value))


def are_keys(value: object) -> bool:
    """Tell whether ``value`` is a list or tuple of texts or bytes, at least one, and none of them empty."""
    return _are(value, lambda key: isinstance(key, str | bytes) and bool(key)) and bool(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_prefix(value: object) -> bool:
    # With the prefix "shop", the first partition is named "shop:0". Another site of that name would share its keys.
    return isinstance(value, str) and re.fullmatch(r"[^{}]+", value) is not None and not re.search(r":\d+\Z", value)


def _is_root_url(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"https?://[^/?#\s]+[^?#\s]*", value) is not None


def _is_cookie_name(value: object) -> bool:
    # A token of RFC 9110. Python takes names of attributes, such as Path, for these.
    is_token = isinstance(value, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", value) is not None
    return is_token and not Morsel().isReservedKey(str(value))


def _is_path_prefix(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/")


def _is_origin(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"https://[a-z0-9.-]+(:\d+)?", value) is not None


def is_code(value: object) -> bool:
    """Tell whether ``value`` may be the code of a ready-made message."""
    return isinstance(value, str) and re.fullmatch(rf"[a-z0-9_]{{1,{CODE_MAX}}}", value) is not None


def _is_message(value: object) -> bool:
    return isinstance(value, str | Promise) and 0 < len(" ".join(str(value).split())) <= MESSAGE_MAX


def _are_messages(value: object) -> bool:
    return isinstance(value, Mapping) and all(is_code(code) and _is_message(text) for code, text in value.items())


def _is_dict_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for item in value.items() for part in item)


def _is_dict_of_paths(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and name and isinstance(path, str | os.PathLike) for name, path in value.items()
    )


def _is_partitions(value: object) -> bool:
    return isinstance(value, int) and is_integer(value, 1, 1024) and value.bit_count() == 1


STORE_KEYS: Mapping[str, Callable[[object], bool]] = {
    "SESSION_CACHE_ALIAS": _is_text,
    "PREFIX": _is_prefix,
    "PARTITIONS": _is_partitions,
}
"""The keys of a dict that describes another store of this engine, each with what tests its value."""

ENGINE_KEYS = {"SESSION_ENGINE", "SESSION_CACHE_ALIAS"}
"""The keys of a dict that describes another engine."""


def _is_store(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        name in STORE_KEYS and STORE_KEYS[name](each) for name, each in value.items()
    )


def _is_source(value: object) -> bool:
    if isinstance(value, Mapping) and "SESSION_ENGINE" in value:
        return ENGINE_KEYS.issuperset(value)
    return value is None or is_path(value) or _is_store(value)


def _is_profile(value: object) -> bool:
    return isinstance(value, str) and value in PROFILES


TRUE_OR_FALSE = Rule(lambda value: isinstance(value, bool), "True or False")
FROM_ONE_WORDS = f"an integer from 1 to {LARGEST:_}"
FROM_ONE = Rule(is_integer, FROM_ONE_WORDS)
FROM_ONE_OR_NONE = Rule(lambda value: value is None or is_integer(value), f"{FROM_ONE_WORDS}, or None")
CENTURY_DAYS = 36525
CENTURY_SECONDS = CENTURY_DAYS * 86400
"""Above it, dates are out of Python's range sooner or later."""
SECONDS_WORDS = f"a number of seconds, an integer from 1 to {CENTURY_SECONDS} (a hundred years)"
SECONDS_OR_NONE = Rule(
    lambda value: value is None or is_integer(value, 1, CENTURY_SECONDS), f"{SECONDS_WORDS}, or None"
)
PREFIX_TEXT = Rule(
    _is_prefix,
    "a text, not empty and without braces, that does not end in a colon and a number: the names of partitions do",
)


class Setting(Generic[T]):
    """
    A key of ``REDSESS``: its ``default``, the ``rule`` for its values, and its ``meaning``, which the reference shows.
    With ``is_secret``, no message shows its value.

    After the first read, the value is an attribute of ``Conf``: a request reads a dozen settings, and Django takes a
    microsecond for each.
    """

    def __init__(self, default: T, rule: Rule, meaning: str, *, is_secret: bool = False) -> None:
        self.default, self.rule, self.meaning, self.is_secret = default, rule, meaning, is_secret

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, conf: None, owner: type) -> Self: ...

    @overload
    def __get__(self, conf: Conf, owner: type) -> T: ...

    def __get__(self, conf: Conf | None, owner: type) -> Self | T:
        if conf is None:
            return self
        value = conf.__dict__[self.name] = self._read()
        return value

    def fault_of(self, value: object) -> str:
        """Return a sentence about ``value``, which the rule does not allow."""
        shown = "something else" if self.is_secret else repr(value)
        return f"REDSESS[{self.name!r}] must be {self.rule.words}; it is {shown}."

    def _read(self) -> T:
        redsess: Mapping[str, T] = getattr(settings, "REDSESS", {})
        if self.name in redsess:
            return redsess[self.name]
        profile: Any = redsess.get("PROFILE")
        value: T = PROFILES[profile].get(self.name, self.default) if _is_profile(profile) else self.default
        return value


class _Prefix(Setting[Any]):
    """The prefix. A text is kept in ``Conf`` after the first read. A function is kept, and called at each read."""

    def __get__(self, conf: Conf | None, owner: type) -> Any:
        if conf is None:
            return self
        if prefix_of_test is not None and (of_test := prefix_of_test()):
            return of_test
        kept = conf.__dict__
        if "prefix_function" not in kept:
            prefix = self._read()
            if not callable(prefix):
                if prefix_of_test is None:
                    kept[self.name] = prefix
                return prefix
            kept["prefix_function"] = prefix
        returned = kept["prefix_function"]()
        if not isinstance(returned, str):
            raise ImproperlyConfigured(f"The function REDSESS['PREFIX'] must return a text; it returned {returned!r}.")
        return returned


class Conf:
    """The values of ``settings.REDSESS``, or their defaults. A test that overrides it clears what is cached."""

    PROFILE = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or _is_profile(value),
            f"None, or {' or '.join(map(repr, sorted(PROFILES)))}",
        ),
        """
        The name of a set of defaults. None: each setting has its own default.

        A setting that is given has its given value, whatever the profile says.
        """,
    )
    PREFIX = _Prefix(
        "redsess",
        Rule(
            lambda value: callable(value) or _is_prefix(value),
            f"{PREFIX_TEXT.words}; or a function that returns such a text",
        ),
        """
        The prefix of all Redis keys. Two sites on one server, or two tables of users, need different prefixes.

        The value is a text, or a function without arguments that returns it. The function is called at each operation.
        """,
    )
    MAX_SESSIONS = Setting[int](
        10_000_000,
        FROM_ONE,
        "The maximum number of sessions. Above it, sessions are evicted: guests' first, the longest unseen first.",
    )
    MAX_GUESTS = Setting[int | None](
        None, FROM_ONE_OR_NONE, "The maximum number of guests' sessions. None: no limit except ``MAX_SESSIONS``."
    )
    MAX_SESSIONS_PER_USER = Setting[int | str | None](
        None,
        Rule(
            lambda value: value is None or is_integer(value) or is_path(value),
            f"{FROM_ONE_WORDS}, None, or the dotted path of a function, such as 'shop.people.sessions_of'",
        ),
        """
        The maximum number of sessions of one user. None: no limit.

        The value is an integer, or the dotted path of a function that takes the user.
        """,
    )
    USER_SESSIONS_CEILING = Setting[int | None](
        1000,
        FROM_ONE_OR_NONE,
        """
        The maximum number of sessions of a user for whom ``MAX_SESSIONS_PER_USER`` sets no limit. None: no ceiling.

        A sign-in above it ends a session of the user that was never used after its own sign-in. If there is none, it
        ends the one that was not used for the longest time.
        """,
    )
    SESSION_LIMIT_POLICY = Setting[str](
        "end_oldest",
        Rule(lambda value: value in POLICIES, "one of 'end_oldest', 'end_least_recent' and 'refuse'"),
        """
        What happens at a sign-in above ``MAX_SESSIONS_PER_USER``.

        ``end_oldest`` and ``end_least_recent`` end another session of the user. ``refuse`` refuses the sign-in.
        """,
    )
    END_MESSAGES = Setting[Mapping[str, str | Promise]](
        END_MESSAGES,
        Rule(
            _are_messages,
            f"a dict of codes to texts, such as {{'lost_device': _('This device was reported lost.')}}: each code of 1 "
            f"to {CODE_MAX} lower-case letters, digits and underscores, each text of 1 to {MESSAGE_MAX} characters",
        ),
        """
        The ready-made messages that administrators choose from when they end sessions, by code.

        The code is stored. A lazy text is translated when somebody reads it. A removed code has no words any more.
        """,
    )
    SUPPORT_CONTACT = Setting[str | Promise](
        "",
        Rule(
            lambda value: value == "" or _is_message(value),
            f"a text of at most {MESSAGE_MAX} characters, such as 'support@shop.example' or _('Call us: 555 0123.')",
        ),
        """
        Whom users can ask who may not sign in, or whose session somebody has ended: an address, or a sentence.

        They read it behind "Questions?". An empty text: they read nothing of it.
        """,
    )
    END_ON_DEACTIVATION = Setting[bool](
        True, TRUE_OR_FALSE, "Whether a user's sessions end when a save sets the user's ``is_active`` to False."
    )
    END_ON_DELETION = Setting[bool](True, TRUE_OR_FALSE, "Whether a user's sessions end when the user is deleted.")
    END_ON_PASSWORD_CHANGE = Setting[bool](
        True,
        TRUE_OR_FALSE,
        "Whether a user's sessions end when the user is saved with a new password. The present session stays.",
    )
    REAUTHENTICATE = Setting[bool](
        True,
        TRUE_OR_FALSE,
        """
        Whether users give their password again before they end other sessions of theirs.

        They are not asked for five minutes after a sign-in, or after they gave it; nor if they have no usable password.
        The admin and the JSON API ask, too.
        """,
    )
    PERMISSIONS = Setting[str](
        "django_redsess.permissions.Rules",
        Rule(is_path, "the dotted path of a class, such as 'shop.rules.OwnBranchOnly'"),
        """
        The dotted path of the class whose methods say who may see, end, block and deactivate whom.

        It derives from :class:`django_redsess.permissions.Rules`. The admin and the JSON API ask it.
        """,
    )
    CONFIRM_ENDS = Setting[tuple[int, int] | None](
        None,
        Rule(
            lambda value: value is None or (_are(value, is_integer) and len(value) == 2),
            f"None, or two integers from 1 to {LARGEST:_}, how many replicas and how long, such as (1, 200)",
        ),
        """
        How many replicas are to confirm an end, and how many milliseconds it waits for them. None: it does not wait.

        It applies to sessions that are kicked, that end when the account changes, or that a sign-in ends above
        ``MAX_SESSIONS_PER_USER``.
        """,
    )
    TOUCH_INTERVAL = Setting[int](
        10,
        Rule(lambda value: is_integer(value, 0, 86400), "a number of seconds: an integer from 0 to 86400 (a day)"),
        "Seconds between two updates of a session's last-seen time. Requests in between do not update it.",
    )
    PARTITIONS = Setting[int](
        1,
        Rule(
            _is_partitions,
            "a power of two from 1 to 1024",
        ),
        """
        The number of partitions, a power of two.

        Another number is another store, and sessions have to be moved there.
        """,
    )
    IDLE_TIMEOUT = Setting[int | None](
        None,
        SECONDS_OR_NONE,
        "The seconds after its last active request at which a session expires. None: no idle time-out.",
    )
    ABSOLUTE_TIMEOUT = Setting[int | None](
        None,
        SECONDS_OR_NONE,
        "The seconds after sign-in at which a session expires, used or not. None: no absolute time-out.",
    )
    SLIDING = Setting[bool](
        False,
        TRUE_OR_FALSE,
        "Whether each active request restarts the age of the session and of its cookie. If not, only a save does.",
    )
    PASSIVE_PATHS = Setting[Sequence[str]](
        (),
        Rule(
            lambda value: _are(value, _is_path_prefix),
            "a list or tuple of paths, each a string that begins with '/'",
        ),
        "Path prefixes of passive requests, such as polling. A passive request does not prolong the session.",
    )
    PASSIVE_HEADER = Setting[str](
        "X-Session-Passive",
        Rule(lambda value: _is_text(value) and bool(value), "the name of a header, a string that is not empty"),
        "The request header that marks a request as passive when its value is ``1``.",
    )
    TRUSTED_PROXY_COUNT = Setting[int](
        0,
        Rule(lambda value: is_integer(value, 0, 100), "an integer from 0 to 100"),
        """
        The number of your own proxies in front of the site. So many entries of X-Forwarded-For are trusted.

        With 0, the header is ignored, and the client's address is ``REMOTE_ADDR``.
        """,
    )
    CLIENT_ADDRESS = Setting[str](
        "full",
        Rule(lambda value: value in ("full", "truncated", "none"), "one of 'full', 'truncated' and 'none'"),
        "How much of the client's address is stored: ``full``, only the network (``truncated``), or ``none``.",
    )
    NETWORKS = Setting[Mapping[str, str | os.PathLike[str]]](
        {},
        Rule(_is_dict_of_paths, "a dict of names and paths of files, such as {'tor': '/srv/shop/tor-exits.txt'}"),
        """
        Files that list networks, each under a name. Searches, filters and commands take this name for a network.

        A file has one address or network a line. What stands after ``#`` is a comment. A changed file is read anew.
        """,
    )
    ENCRYPT = Setting[bool](
        False,
        TRUE_OR_FALSE,
        """
        Whether records of sessions are encrypted when they are written. Needs the extra ``encryption``.

        Encrypted and unencrypted records are both read, whatever the value is.
        """,
    )
    ENCRYPTION_KEYS = Setting[Sequence[str | bytes] | str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value) or are_keys(value),
            "None, or a list or tuple of one or more keys, each a text or bytes, or the dotted path of a function that "
            "returns one, such as 'shop.keys.of_sessions'",
        ),
        """
        The keys that encrypt, or the dotted path of a function that returns them. The first one writes, and all read.

        None: the keys are derived from ``SECRET_KEY`` and ``SECRET_KEY_FALLBACKS``. These are always read, too.
        """,
        is_secret=True,
    )
    PLACES = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'django_redsess.contrib.geoip2.places'",
        ),
        """
        The dotted path of a function that takes a list of addresses and returns a dict of addresses to places.

        Pages show the places beside the addresses. None: no places are shown.
        """,
    )
    USER_TIME_ZONE = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'shop.zones.time_zone_of'",
        ),
        """
        The dotted path of a function that takes a user and returns the user's time zone: its name, a tzinfo, or None.

        The self-service pages, our pages of the admin and mails about new devices show times in it. None, or a function
        that returns None: pages show times in the zone of the browser, mails in ``TIME_ZONE``.
        """,
    )
    HIDDEN_VALUES = Setting[Sequence[str]](
        (),
        Rule(lambda value: _are(value, _is_text), "a list or tuple of keys of sessions, each a string"),
        "Top-level keys of session data whose values the admin never shows. Django's own secrets are always hidden.",
    )
    VIEWED_VIEWS = Setting[Mapping[str, str]](
        {},
        Rule(_is_dict_of_texts, "a dict of strings, view name to URL keyword, such as {'shop:product': 'slug'}"),
        """
        The views that show an item.

        Each key is a view name, as for ``reverse()``. Its value is the URL keyword that has the item's id.
        """,
    )
    VIEWED_GUESTS = Setting[bool](
        False, TRUE_OR_FALSE, "Whether viewing an item starts a session, and sets its cookie, for a guest who has none."
    )
    VIEWED_RESOLVE = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'shop.models.products_by_slug'",
        ),
        """
        The dotted path of a function that takes a list of item ids and returns a mapping of ids to objects.

        None: items are not resolved to objects.
        """,
    )
    VIEWED_PER_SESSION = Setting[int](
        25, FROM_ONE, "The maximum number of viewed items in a session. The newest are kept."
    )
    VIEWED_LIMIT = Setting[int](
        100_000, FROM_ONE, "The maximum number of items whose views are counted. The most viewed are kept."
    )

    ASYNC_CONNECTION_CLASS = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a class, such as 'shop.connections.AsyncTunnel'",
        ),
        """
        The dotted path of the class of connections of event loops, if the sessions have a ``connection_class`` of your
        own.

        It derives from the counterpart of that class in ``redis.asyncio``. None: such a class serves threads only.
        """,
    )
    OBSERVERS = Setting[Sequence[str]](
        (),
        Rule(
            lambda value: _are(value, is_path),
            "a list or tuple of dotted paths of classes, such as 'django_redsess.contrib.opentelemetry.Observer'",
        ),
        """
        The dotted paths of the classes that observe each operation on the store: see ``django_redsess.observers``.

        Each is a :class:`django_redsess.observers.Observer`. Without any, an operation costs nothing more.
        """,
    )
    HISTORY_DAYS = Setting[int | None](
        90,
        Rule(
            lambda value: value is None or is_integer(value, 1, CENTURY_DAYS),
            f"a number of days, an integer from 1 to {CENTURY_DAYS} (a hundred years), or None",
        ),
        """
        For how many days the app ``django_redsess.contrib.history`` keeps the rows of sign-ins. None: for ever.

        The row of a living session stays. So does the latest row of each user, without address and user agent.
        """,
    )
    MOVE_FROM = Setting[str | Mapping[str, Any] | None](
        None,
        Rule(
            _is_source,
            "None, the dotted path of a session engine or of a Source, a dict of SESSION_ENGINE and "
            "SESSION_CACHE_ALIAS, or one of SESSION_CACHE_ALIAS, PREFIX and PARTITIONS of another store of this engine",
        ),
        """
        Where sessions are moved from.

        With ``SESSION_ENGINE = "django_redsess.contrib.moving"``, the dotted path of a session engine, such as
        ``django.contrib.sessions.backends.db``, or of a subclass of :class:`django_redsess.contrib.moving.Source`. Or a
        dict of an engine's path as ``SESSION_ENGINE`` and of the ``SESSION_CACHE_ALIAS`` that it had, if that is
        another one now.

        With ``SESSION_ENGINE = "django_redsess.contrib.moving.growing"``, a dict of the settings that differ in the
        other store of this engine: ``SESSION_CACHE_ALIAS``, ``PREFIX`` and ``PARTITIONS``.
        """,
    )
    MOVE_TO = Setting[Mapping[str, Any] | None](
        None,
        Rule(
            lambda value: value is None or _is_store(value),
            "None, or a dict of SESSION_CACHE_ALIAS, PREFIX and PARTITIONS of another store of this engine",
        ),
        """
        Where sessions are about to move, with ``SESSION_ENGINE = "django_redsess.contrib.moving.growing"``: a dict of
        the settings that differ in the next store of this engine. Sessions stay here until the site has these settings.
        """,
    )
    MOVES = Setting[bool](
        False,
        TRUE_OR_FALSE,
        "Whether sessions of another engine are moved: each at its next request. If not, they stay there and are used.",
    )

    HISTORY_NOTIFY = Setting[bool](
        False,
        TRUE_OR_FALSE,
        "Whether a user gets a mail after a sign-in on a new device. Needs the app ``django_redsess.contrib.history``.",
    )
    HISTORY_MAILER = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'shop.mails.queue'",
        ),
        """
        The dotted path of a function that queues such a mail. It takes a ``django.core.mail.EmailMultiAlternatives``.

        None: it is sent by Django's default mailer, after the response. SMTP is given up after 5 seconds.
        """,
    )
    HISTORY_SITE_URL = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or _is_root_url(value),
            "None, or a URL without query, such as 'https://shop.example'",
        ),
        """
        The URL of the site that such a mail names and links to, such as ``https://shop.example``.

        A path in it is the root of the site, whatever ``SCRIPT_NAME`` says.

        None: the domain of ``django.contrib.sites``, if that is installed. Without both, the mail has no links.
        """,
    )
    HISTORY_LANGUAGE = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'shop.people.language_of'",
        ),
        """
        The dotted path of a function that takes the user and returns the language of such a mail, such as ``"fr"``.

        None: mails are in the language of ``LANGUAGE_CODE``.
        """,
    )

    HISTORY_DEVICE_COOKIE = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or _is_cookie_name(value),
            "None, or the name of a cookie, such as 'shop_device'",
        ),
        """
        The name of the cookie by which ``django_redsess.contrib.history`` knows a device again.

        None: ``SESSION_COOKIE_NAME`` with ``_device`` at its end, such as ``sessionid_device``.
        """,
    )

    DEVICE_BOUND = Setting[str](
        REFUSE,
        Rule(lambda value: value in (REFUSE, OBSERVE), "one of 'refuse' and 'observe'"),
        """
        What happens to a request that brings the cookie of a bound session, and no proof of its device.

        ``refuse``: the session is not opened. ``observe``: it is opened, and the request is reported all the same.
        """,
    )
    DEVICE_BOUND_SECONDS = Setting[int](
        600,
        Rule(lambda value: is_integer(value, 1, CENTURY_SECONDS), SECONDS_WORDS),
        """
        The seconds for which a browser's proof counts. Then it has to prove again that it has the key.

        With less than 300, Chromium may refuse to do so, and its users are locked out for minutes.
        """,
    )
    DEVICE_BOUND_REQUIRED = Setting[str | None](
        None,
        Rule(
            lambda value: value is None or is_path(value),
            "None, or the dotted path of a function, such as 'shop.rules.is_staff'",
        ),
        """
        The dotted path of a function that takes a user and returns whether the sessions of this user must be bound.

        Such a session opens no longer if the browser has not bound it in the first minute. None: no session must be.
        """,
    )
    DEVICE_BOUND_OPEN_PATHS = Setting[Sequence[str]](
        (),
        Rule(
            lambda value: _are(value, _is_path_prefix),
            "a list or tuple of paths, each a string that begins with '/'",
        ),
        """
        Path prefixes where a browser that can't prove itself goes on without its session, as a visitor does.

        ``LOGIN_URL`` and the admin's sign-in page are always such. A provider of identities may call back to others.
        """,
    )
    DEVICE_BOUND_ORIGINS = Setting[Sequence[str]](
        (),
        Rule(
            lambda value: _are(value, _is_origin),
            "a list or tuple of origins, each such as 'https://shop.example.com'",
        ),
        """
        The origins of the subdomains on which users sign in, if ``SESSION_COOKIE_DOMAIN`` is set.

        The view ``well_known`` shows them to browsers.
        """,
    )

    @property
    def user_table(self) -> str:
        """The prefix that a function returns: it tells tables of users apart. ``""`` if ``PREFIX`` is a text."""
        redsess: Mapping[str, Any] = getattr(settings, "REDSESS", {})
        return str(self.PREFIX) if callable(redsess.get("PREFIX")) else ""

    @cached_property
    def moves_deadlines(self) -> bool:
        """Whether the settings let requests move deadlines."""
        return bool(self.SLIDING or self.IDLE_TIMEOUT or self.ABSOLUTE_TIMEOUT)

    def require_values(self) -> None:
        """
        Raise ``ImproperlyConfigured`` if ``PROFILE`` names none, or if a number is too large.

        A starting server runs no system checks. It would serve without the values of the profile. With the number,
        scripts in Lua would fail, and not name the setting.
        """
        values = {name: getattr(self, name) for name in SETTINGS if name != "PREFIX"}
        for name, value in values.items():
            is_too_large = isinstance(value, int) and value > LARGEST
            if is_too_large or (name == "PROFILE" and not SETTINGS[name].rule.allows(value)):
                raise ImproperlyConfigured(SETTINGS[name].fault_of(value))

    def clear_cached(self, *, setting: str = "REDSESS", **kwargs: Any) -> None:
        """Receive Django's signal ``setting_changed``. Clear the cache if REDSESS has changed."""
        if setting == "REDSESS":
            self.__dict__.clear()


SETTINGS: dict[str, Setting[Any]] = {name: each for name, each in vars(Conf).items() if isinstance(each, Setting)}
conf = Conf()
setting_changed.connect(conf.clear_cached)
