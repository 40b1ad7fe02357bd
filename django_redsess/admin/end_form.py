"""The form of the page that asks whether to end sessions."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, override

from django_redsess.conf import MESSAGE_MAX, conf
from django_redsess.session import notice


def reasons() -> list[tuple[str, str]]:
    """Return the choices of ``END_MESSAGES``, in the language of the site: the administrator may read another one."""
    with override(settings.LANGUAGE_CODE):
        texts = [str(text) for text in conf.END_MESSAGES]
    return [("", "---------"), *((text, text) for text in texts)]


class EndForm(forms.Form):
    """
    Which sessions to end, and the message for their users: a reason, words of one's own, or both. And a note about
    it, which they never read.

    The sessions are either ``sids``, or those of the list's ``query`` that began up to the time ``latest``.
    """

    sids = forms.CharField(required=False, widget=forms.HiddenInput)
    query = forms.CharField(required=False, widget=forms.HiddenInput)
    # In milliseconds of the server's clock. Sessions that began later were not counted on the page, and stay.
    latest = forms.IntegerField(required=False, min_value=0, max_value=10**15, widget=forms.HiddenInput)
    # Progress, signed: see signed_progress().
    progress = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.ChoiceField(label=gettext_lazy("Reason, which the user reads"), required=False, choices=reasons)
    message = forms.CharField(
        label=gettext_lazy("Message to the user"),
        required=False,
        max_length=MESSAGE_MAX,
        help_text=gettext_lazy("Optional. Each user reads it on the next page they open."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    note = forms.CharField(
        label=gettext_lazy("Internal note"),
        required=False,
        max_length=MESSAGE_MAX,
        help_text=gettext_lazy("Optional. It is kept in the history in the admin only. No user is told."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    own = forms.BooleanField(
        label=gettext_lazy("End my own session too: I will be signed out"), required=False, label_suffix=""
    )

    # The primary key of the user whose account is deactivated, too: the value of a button, so no field shows it.
    deactivate = forms.CharField(required=False)
    # The answer to the second question, which asks about the account only.
    is_confirmed = forms.BooleanField(required=False)
    # For how long a user is blocked, too, and the primary key: see blocking.block_buttons().
    block = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not conf.END_MESSAGES:
            del self.fields["reason"]

    def clean(self) -> dict[str, Any]:
        """Join reason and message: ``message`` is the whole of what the users read."""
        data = self.cleaned_data
        data["note"] = notice.clean_text(data.get("note", ""))
        data["message"] = notice.clean_text(f"{data.pop('reason', '')} {data.get('message', '')}")
        if len(data["message"]) > MESSAGE_MAX:
            text = gettext("Reason and message together have at most %(limit)d characters.")
            self.add_error("message", text % {"limit": MESSAGE_MAX})
        return data


class Progress(NamedTuple):
    """
    How far the ending of a list is that takes several requests: ``ended`` of ``total`` sessions.

    ``place`` is where to go on: see :class:`django_redsess.online.ending.BulkEnding`. ``confirmed_by`` is the least
    number of replicas that have confirmed, or None.
    """

    ended: int = 0
    total: int = 0
    place: tuple[int, str, str] | None = None
    confirmed_by: int | None = None


def signed_progress(request: HttpRequest, query: Any, latest: object, progress: Progress) -> str:
    """Return ``progress`` as a signed text for the next page's form: nobody can forge it."""
    return signing.dumps(progress, salt=_salt(request, query, latest))


def progress_of(request: HttpRequest, data: dict[str, Any]) -> Progress | None:
    """Return the progress that the form's ``data`` contain; None if the signature is not ours, or for another list."""
    if not data["progress"]:
        return Progress()
    try:
        return Progress(*signing.loads(data["progress"], salt=_salt(request, data["query"], data["latest"])))
    except signing.BadSignature:
        return None


def _salt(request: HttpRequest, query: Any, latest: object) -> str:
    return f"django_redsess.ending {request.user.pk} {latest} {str(query).strip()}"
