from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser, no_translations

from django_redsess.management.terminal import CommandWithExamples, command_errors, print_line
from django_redsess.online.labels import printable

GIVEN = {
    "django_redsess.view_onlinesession": "see who is signed in, and each session without its values",
    "django_redsess.end_onlinesession": "end sessions, but not everyone's at once",
    "django_redsess.block_user": "block users for a week at most, see who is blocked, and lift blocks",
    "django_redsess.view_popularitem": "see how often each item was viewed",
    "redsess_history.view_signin": "see sign-ins of the past",
}
"""The permissions of the group, each with what it lets members do. A site may be without the app of the last one."""


class Command(CommandWithExamples):
    help = (
        "Make a group for the support, or give a group the permissions that it lacks of these: to see sessions, to end "
        "them, to block users for a time, to see viewed items and, with the app of sign-ins, sign-ins of the past. Its "
        "members can end a thief's session and keep the thief out. They can't end everyone's sessions at once, export "
        "lists, see what is in a session, or see the admin pages of users; and superusers are beyond their reach. "
        "Nothing is taken away from a group, and nobody is added to it. It can be repeated."
    )
    examples = (
        "manage.py supportgroup",
        "manage.py supportgroup 'First line'",
        "manage.py supportgroup --verbosity 0",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name", nargs="?", default="Support", metavar="NAME", help="name of the group (default: %(default)s)"
        )

    @no_translations
    def handle(self, *args: Any, name: str, verbosity: int, **options: Any) -> None:
        if not apps.is_installed("django.contrib.auth"):
            raise CommandError("Groups need django.contrib.auth in INSTALLED_APPS.")
        with command_errors():
            told = self._give(name)
        for line in told if verbosity else ():
            print_line(line, self.stdout)

    def _give(self, name: str) -> list[str]:
        """Make or complete the group, and return what to print."""
        # A site without the app has no table for these models.
        from django.contrib.auth.models import Group, Permission

        wanted = {label: meaning for label, meaning in GIVEN.items() if label.partition(".")[0] in apps.app_configs}
        everything = Permission.objects.filter(content_type__app_label__in=apps.app_configs)
        found = _by_label(everything.filter(codename__in=[label.partition(".")[2] for label in wanted]))
        if missing := [label for label in wanted if label not in found]:
            raise CommandError(f"There is no permission {' or '.join(missing)} yet. Run 'manage.py migrate' first.")
        group = Group.objects.filter(name=name).first()
        if is_new := group is None:
            group = Group(name=name)
            try:
                group.full_clean()
            except ValidationError as error:
                raise CommandError(f"{printable(name)!r} can't be the name: {' '.join(error.messages)}") from error
            group.save()
        had = _by_label(group.permissions.all())
        lacked = [found[label] for label in wanted if label not in had]
        group.permissions.add(*lacked)
        more = f"{len(lacked)} more {'permission' if len(lacked) == 1 else 'permissions'}"
        what = "is made" if is_new else f"has {more} now" if lacked else "was complete: nothing has changed"
        return [
            f"The group {printable(name)} {what}. Its members may:",
            *_table(wanted),
            *_of_others({label: str(each.name) for label, each in had.items() if label not in wanted}),
            "",
            "Next: for each person of the support, open the user in the admin, choose this group under Groups, and",
            "tick Staff status (is_staff): without it, nobody gets into the admin.",
        ]


def _by_label(permissions: Any) -> dict[str, Any]:
    """Return permissions by what ``has_perm()`` takes."""
    rows = permissions.select_related("content_type").order_by("content_type__app_label", "codename")
    return {f"{each.content_type.app_label}.{each.codename}": each for each in rows}


def _of_others(others: dict[str, str]) -> Sequence[str]:
    return ["", "It had these before, and keeps them:", *_table(others)] if others else []


def _table(meanings: dict[str, str]) -> list[str]:
    width = max(map(len, meanings))
    return [f"  {printable(label):{width}}  {printable(meaning)}" for label, meaning in meanings.items()]
