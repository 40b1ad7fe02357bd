"""What the confirmation page of the admin sends when sessions are to end."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.core import signing
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_redsess.session import notice


class Progress(NamedTuple):
    """How many of a list were ended, of how many, where that takes several requests."""

    ended: int = 0
    total: int = 0
    # Those that a rule lets nobody end were asked about, and stay.
    passed: int = 0


class EndForm(forms.Form):
    """What a confirmation page sends: which sessions, as sids or as the list's query and a time, and the reason."""

    sids = forms.CharField(required=False, widget=forms.HiddenInput)
    query = forms.CharField(required=False, widget=forms.HiddenInput)
    # Sessions that began later were not counted, and stay: milliseconds of the server's clock.
    latest = forms.IntegerField(required=False, min_value=0, max_value=10**15, widget=forms.HiddenInput)
    # How far that is: see signed().
    progress = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=notice.TEXT_MAX,
        help_text=gettext_lazy("Optional. Whoever used the session reads it on the next page they open."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    own = forms.BooleanField(
        label=gettext_lazy("End my own session too: I will be signed out"), required=False, label_suffix=""
    )

    def clean_reason(self) -> str:
        return notice.clean(self.cleaned_data["reason"])


def signed(request: HttpRequest, query: Any, latest: object, progress: Progress) -> str:
    """Write ``progress`` for the page that continues, so that nobody can make it up."""
    return signing.dumps(progress, salt=_salt(request, query, latest))


def progress_of(request: HttpRequest, given: dict[str, Any]) -> Progress | None:
    """Return how far it was, or None where that was not said by a page of ours about the same."""
    if not given["progress"]:
        return Progress()
    try:
        return Progress(*signing.loads(given["progress"], salt=_salt(request, given["query"], given["latest"])))
    except signing.BadSignature:
        return None


def _salt(request: HttpRequest, query: Any, latest: object) -> str:
    return f"django_redsess.ending {request.user.pk} {latest} {str(query).strip()}"
