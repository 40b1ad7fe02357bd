"""The languages of the demo: its admin has those of the package, and its shop is English."""

from django.http import HttpRequest, HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.urls import reverse
from django.utils import translation


class AdminLocaleMiddleware(LocaleMiddleware):
    """Follow the browser's language in the admin only. The pages of the shop are written in one language."""

    def process_request(self, request: HttpRequest) -> None:
        if _is_admin(request):
            super().process_request(request)
        else:
            # Django then takes LANGUAGE_CODE.
            translation.deactivate()

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        # Other pages do not vary by language.
        return super().process_response(request, response) if _is_admin(request) else response


def _is_admin(request: HttpRequest) -> bool:
    return request.path_info.startswith(reverse("admin:index"))
