"""The schemas of requests and responses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from django.core import signing
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    create_model,
)

from django_redsess import online
from django_redsess.conf import MESSAGE_MAX, conf
from django_redsess.contrib.api.problems import ProblemError
from django_redsess.online.fields import BLOCK, OWN_SESSION, SESSION, SIGN_IN, iso_time
from django_redsess.online.fields import Field as DescribedField
from django_redsess.online.listing import SIDS_MAX, USERS_MAX
from django_redsess.problems import TYPES, WRONG_CURSOR
from django_redsess.user_messages import clean_text, ready_message

LIMIT, LIMIT_MAX = 50, 100

TEXT_MAX = 200
"""The most characters of a search term."""


def _storable(value: Any) -> Any:
    # JSON may have lone surrogates, which no server stores, and NUL, which PostgreSQL rejects.
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ValueError("a text without NUL and without half characters")
    return value


def _as_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a time with its offset, such as 2031-04-01T12:00:00Z")
    return value


def _known_code(value: str) -> str:
    if value and value not in conf.END_MESSAGES:
        raise ValueError(f"a code of END_MESSAGES: {', '.join(conf.END_MESSAGES)}")
    return value


def _within_the_calendar(at: datetime) -> datetime:
    # In another time zone, the first and last years may exceed Python's dates.
    if not 1970 < at.year < 9999:
        raise ValueError("a year from 1971 to 9998")
    return at


Text = Annotated[str, BeforeValidator(_storable)]
SessionId = Annotated[str, Field(min_length=1, description="The id of a session: that of a list.")]
UserId = Annotated[str, Field(min_length=1, description="The primary key of a user as text.")]
Searched = Annotated[Text, Field(max_length=TEXT_MAX), AfterValidator(str.strip)]
Message = Annotated[Text, Field(max_length=MESSAGE_MAX), AfterValidator(clean_text)]
MessageCode = Annotated[Text, AfterValidator(_known_code)]
Moment = Annotated[AwareDatetime, BeforeValidator(_as_text), AfterValidator(_within_the_calendar)]

Time = Annotated[str, BeforeValidator(iso_time), Field(json_schema_extra={"format": "date-time"})]
"""A time as files have it."""


class Query(BaseModel):
    """The parameters of a query. Others are rejected, and repeated ones, unless they are lists."""


class ListQuery(Query):
    """
    The page of a list. Subclasses add filters.

    A cursor is a signed position in a list, valid only with the same filters and order. ``about`` says whose list it
    is, if the path does.
    """

    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="How many a page has.")
    cursor: str = Field(
        "", max_length=500, description="The `next_cursor` of the page before, with the same filters and order."
    )

    @property
    def filters(self) -> dict[str, Any]:
        return self.model_dump(exclude={"limit", "cursor"}, exclude_unset=True)

    def read_cursor(self, parts: int, about: str = "") -> Any:
        """Return the position in the cursor, a list of this many ``parts``. None without a cursor."""
        if not self.cursor:
            return None
        try:
            position = signing.loads(self.cursor, salt=self._cursor_salt(about))
            if len(position) != parts:
                # The list is read in another way by now.
                raise signing.BadSignature
            return position
        except signing.BadSignature:
            text = "cursor must be the next_cursor of the page before, with the same filters and order."
            raise ProblemError(WRONG_CURSOR, text) from None

    def make_cursor(self, position: Sequence[int | str] | None, about: str = "") -> str | None:
        """Return the cursor for ``position``. None if there is no other page."""
        return None if position is None else signing.dumps(list(position), salt=self._cursor_salt(about))

    def _cursor_salt(self, about: str) -> str:
        return json.dumps(["django_redsess.contrib.api", type(self).__name__, about, self.filters], sort_keys=True)


class OfUsers(ListQuery):
    """A list that can be one of some users."""

    user: list[Annotated[Text, Field(min_length=1, max_length=TEXT_MAX)]] = Field(
        [], max_length=USERS_MAX, description="Of these users only: primary keys as text. The parameter may repeat."
    )


class UserSessionsQuery(ListQuery):
    """The order of a list of sessions."""

    order: online.Order | None = Field(
        None, description="By sign-in or by last seen. With a minus, the latest come first."
    )


class SessionsQuery(UserSessionsQuery, OfUsers):
    """The filters of sessions: those of the admin's page."""

    q: Searched = Field("", description="What is searched for: users, an address, a network, or the id of a session.")
    guests: Literal["true", "only"] | None = Field(
        None, description="`true` adds guests, `only` leaves out everybody else. The order is by last seen then."
    )
    active: Literal["5m", "1h", "1d"] | None = Field(
        None, description="Seen in the last five minutes, hour or day. The order is by last seen then."
    )
    staff: Literal["true"] | None = Field(None, description="`true`: of staff only.")
    network: Searched = Field("", description="Of an address, or of a network such as `198.51.100.0/24`.")
    browser: Searched = Field("", description="Of a browser, such as `Firefox` or `Firefox 140`.")
    system: Searched = Field("", description="Of an operating system, such as `Windows`.")
    device_bound: Literal["true", "false"] | None = Field(
        None, description="`true`: bound to a device only. `false`: only those that are not."
    )


INTERNAL_NOTE = "A note for administrators who may end the user's sessions. No user is told."


class WithMessage(BaseModel):
    """A message to users, a ready-made one, own words, or both; and a note for administrators."""

    message_code: MessageCode = Field(
        "", description="A ready-made message, in the language of each user: a key of the setting END_MESSAGES."
    )
    message: Message = Field("", description="What the users are told. It follows the ready-made message.")
    internal_note: Message = Field("", description=INTERNAL_NOTE)

    @property
    def to_users(self) -> str:
        """The message in its stored form."""
        return ready_message(self.message_code, self.message) if self.message_code else self.message


class EndQuery(WithMessage, Query):
    pass


class Body(BaseModel):
    """The JSON object of a body. Other fields are rejected."""

    model_config = ConfigDict(extra="forbid")


class EndSessions(WithMessage, Body):
    ids: list[Text] = Field(min_length=1, max_length=SIDS_MAX, description="The ids of sessions.")


class Password(Body):
    password: Annotated[SecretStr, BeforeValidator(_storable)] = Field(min_length=1)


class BlockUser(WithMessage, Body):
    until: Moment = Field(
        description="Until when the user can't sign in, with a time zone. At most 7 days ahead: 403 above that. "
        "Superusers, and who may change the user, block for up to 366 days: 422 above that."
    )


def _schema_of(name: str, fields: Iterable[DescribedField]) -> Any:
    """Return a schema with these ``fields``."""
    as_told = {datetime: Time, datetime | None: Time | None}
    members = {each.name: (as_told.get(each.type, each.type), Field(description=each.meaning)) for each in fields}
    return create_model(name, **members)  # type: ignore[call-overload]


Session = _schema_of("Session", SESSION)
OwnSession = _schema_of("OwnSession", OWN_SESSION)
SignIn = _schema_of("SignIn", SIGN_IN)
Block = _schema_of("Block", BLOCK)


class LookedThrough(BaseModel):
    """How much was looked through: by a search, or by a rule of the site for each row."""

    count: int = Field(ge=0, description="So many sessions.")
    is_all: bool = Field(description="Whether these are all.")


NextCursor = Annotated[str | None, Field(description="The cursor of the next page. Null on the last one.")]


class SessionList(BaseModel):
    sessions: list[Session]  # type: ignore[valid-type]
    next_cursor: NextCursor
    looked_through: LookedThrough | None = None


class OwnSessionList(BaseModel):
    sessions: list[OwnSession]  # type: ignore[valid-type]
    next_cursor: NextCursor


class SignInList(BaseModel):
    sign_ins: list[SignIn]  # type: ignore[valid-type]
    next_cursor: NextCursor
    looked_through: LookedThrough | None = None


MayReturn = Annotated[
    bool,
    Field(
        description="Whether fewer replicas have confirmed the ends than the setting CONFIRM_ENDS asks for: after a "
        "failover, sessions may be back."
    ),
]


class Ended(BaseModel):
    ended: int = Field(ge=0, description="How many sessions have ended.")
    may_return: MayReturn


class EndedSessions(BaseModel):
    ended: list[str] = Field(description="They have ended now.")
    refused: list[str] = Field(description="You may not end them.")
    gone: list[str] = Field(description="They were over, or never were.")
    may_return: MayReturn


class NewBlock(Block):  # type: ignore[misc, valid-type]
    ended: int = Field(ge=0, description="How many sessions the block has ended.")


class Counts(BaseModel):
    signed_in: int = Field(ge=0, description="Sessions that are signed in.")
    guests: int = Field(ge=0, description="Sessions of guests.")
    active: int = Field(ge=0, description="Signed-in sessions that were seen in the last five minutes.")


class Problem(BaseModel):
    """An error, as RFC 9457 has them."""

    type: str = Field(
        description="The kind of problem: the URI of its description. A later release may have more.",
        examples=[each.uri for each in TYPES.values()],
        json_schema_extra={"format": "uri"},
    )
    title: str = Field(description="The kind in words.")
    status: int = Field(ge=400, le=599, description="The status of the answer.")
    detail: str = Field(description="What is wrong here.")
    url: str = Field("", description="With the type `authentication-required`: where to authenticate again.")


def answers(schema: Any, *errors: int) -> dict[Any, Any]:
    """Return the responses of an operation: ``schema``, or none if that is None, and these ``errors``."""
    return {204 if schema is None else 200: schema, frozenset({401, 422, 503, *errors}): Problem}
