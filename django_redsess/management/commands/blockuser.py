from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.management.base import CommandError, CommandParser, no_translations

from django_redsess import online
from django_redsess.management.terminal import (
    USER_HELP,
    CommandWithExamples,
    add_message_options,
    command_errors,
    find_user,
    message_of,
    parse_seconds,
    print_line,
    unknown_users_text,
)
from django_redsess.online import labels
from django_redsess.online.blocking import LISTED_MAX, LONGEST
from django_redsess.online.fields import BLOCK, describe_block, exported_row, iso_time
from django_redsess.online.labels import printable, server_time
from django_redsess.querysets import users_by_id
from django_redsess.session.store import user_id_of
from django_redsess.user_messages import code_of, message_in_words


class Command(CommandWithExamples):
    help = (
        "Keep users from signing in for a time, and end all their sessions at once. It does not ask. Nobody can sign "
        "in as them until then, by whatever way, and who tries reads until when. What does not sign in goes on: tokens "
        "of an API, Basic authentication. To keep somebody out for good, deactivate the account."
    )
    examples = (
        "manage.py blockuser alice --for 1d",
        "manage.py blockuser alice bob --for 30m --message 'Your password is known to others: call us.'",
        "manage.py blockuser alice --lift",
        "manage.py blockuser --list",
        "manage.py blockuser --list --json | jq -r .user",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("users", nargs="*", metavar="USER", help=f"a user, {USER_HELP}")
        add("--for", dest="time", metavar="TIME", help="how long, such as 30m, 12h or 7d; in place of a block there is")
        add_message_options(parser, "also when they try to sign in")
        add("--lift", action="store_true", help="let them sign in again")
        add("--list", action="store_true", help="show who is blocked, and until when")
        json_help = "print one line of JSON for each user or block, and nothing else on stdout"
        add("--json", action="store_true", help=json_help)

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self._validate(options)
        with command_errors():
            if options["list"]:
                self.output.is_all = True
                return self._print_blocks()
            users = {name: find_user(name) for name in dict.fromkeys(options["users"])}
            if unknown := [name for name, user in users.items() if user is None]:
                raise CommandError(f"Nothing was done. {unknown_users_text(unknown)}")
            for name, user in users.items():
                if user is not None:
                    self._lift(name, user) if options["lift"] else self._block(name, user, options)

    def _validate(self, options: dict[str, Any]) -> None:
        wanted = [name for name in ("time", "lift", "list") if options[name]]
        if len(wanted) != 1:
            raise CommandError("Give one of --for, --lift and --list.")
        if options["list"] == bool(options["users"]):
            raise CommandError("--list shows all: give no user names." if options["list"] else "Give user names.")
        for name in ("message", "message_code"):
            if options[name] and not options["time"]:
                raise CommandError(f"--{name.replace('_', '-')} goes with --for.")
        self._message = message_of(options)
        self._seconds = parse_seconds(options["time"], "--for") if options["time"] else 0
        if self._seconds > LONGEST.total_seconds():
            raise CommandError(
                f"--for is at most {LONGEST.days}d. To keep somebody out for good, deactivate the account."
            )

    def _block(self, name: str, user: AbstractBaseUser, options: dict[str, Any]) -> None:
        until = server_time() + timedelta(seconds=self._seconds)
        try:
            ended = online.block(user, until=until, message=self._message)
        except ValueError as error:
            raise CommandError(f"--for {options['time']} is over already, by the clock of the server.") from error
        if options["json"]:
            confirmed = {} if ended.confirmed_by is None else {"confirmed_by": ended.confirmed_by}
            words = {"message": message_in_words(self._message), "message_code": code_of(self._message)}
            return self._print_json(user, until=iso_time(until), **words, ended=ended, **confirmed)
        sessions = f"{ended:,} {'session' if ended == 1 else 'sessions'}"
        worth = labels.confirmation_text(ended.confirmed_by)
        blocked = f"{printable(name)}: blocked until {labels.exactly(until)}, {sessions} ended."
        return print_line(f"{blocked} {worth}".strip(), self.stdout)

    def _lift(self, name: str, user: AbstractBaseUser) -> None:
        lifted = online.unblock(user)
        if self.options["json"]:
            return self._print_json(user, lifted=lifted)
        return print_line(f"{printable(name)}: {'can sign in again.' if lifted else 'was not blocked.'}", self.stdout)

    def _print_json(self, user: AbstractBaseUser, **facts: Any) -> None:
        who = {"user_id": user_id_of(user), "user": user.get_username()}
        self.stdout.write(json.dumps({**who, **facts}))

    def _print_blocks(self) -> None:
        # All at once. In pages, a block that is over meanwhile would move the others.
        found = online.blocked(limit=LISTED_MAX)
        users = users_by_id({user_id for each in found for user_id in (each.user_id, each.by) if user_id})
        if self.options["json"]:
            names = {user_id: user.get_username() for user_id, user in users.items()}
            for each in found:
                self.stdout.write(json.dumps(exported_row(describe_block(each, names), BLOCK)))
            return
        for each in found:
            who = f", by {_user_name(users, each.by)}" if each.by else ""
            message = f": {printable(each.message)}" if each.message else ""
            note = f" (internal note: {printable(each.internal_note)})" if each.internal_note else ""
            name = _user_name(users, each.user_id)
            print_line(f"{name}: until {labels.exactly(each.until)}{who}{message}{note}", self.stdout)
        if not found:
            print_line("Nobody is blocked.", self.stdout)


def _user_name(users: dict[str, AbstractBaseUser], user_id: str) -> str:
    user = users.get(user_id)
    return printable(str(user.get_username()) if user is not None else f"deleted user {user_id}")
