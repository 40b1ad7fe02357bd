"""The form of the page on which an administrator confirms that sessions are to end."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.core import signing
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_redsess.session import notice


class Progress(NamedTuple):
    """
    How far the ending of a list is that takes several requests: ``ended`` of ``total`` sessions.

    ``kept`` counts the sessions that a rule of the site's own has kept. ``confirmed_by`` is the least number of
    replicas that have confirmed, or None.
    """

    ended: int = 0
    total: int = 0
    kept: int = 0
    confirmed_by: int | None = None


class EndForm(forms.Form):
    """
    Which sessions to end, and the message for their users.

    The sessions are either ``sids``, or those of the list's ``query`` that began up to the time ``latest``.
    """

    sids = forms.CharField(required=False, widget=forms.HiddenInput)
    query = forms.CharField(required=False, widget=forms.HiddenInput)
    # In milliseconds of the server's clock. Sessions that began later were not counted on the page, and stay.
    latest = forms.IntegerField(required=False, min_value=0, max_value=10**15, widget=forms.HiddenInput)
    # Progress, signed: see signed_progress().
    progress = forms.CharField(required=False, widget=forms.HiddenInput)
    # Whether these sessions have ended already, and too few replicas have confirmed that.
    again = forms.BooleanField(required=False, widget=forms.HiddenInput)
    message = forms.CharField(
        label=gettext_lazy("Message"),
        required=False,
        max_length=notice.TEXT_MAX,
        help_text=gettext_lazy("Optional. The users whose sessions end read it on the next page they open."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    own = forms.BooleanField(
        label=gettext_lazy("End my own session too: I will be signed out"), required=False, label_suffix=""
    )

    def clean_message(self) -> str:
        return notice.clean(self.cleaned_data["message"])


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
