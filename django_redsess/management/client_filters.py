"""The options of commands that keep the sessions of some clients: networks, browsers, systems, bound devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redsess.online.labels import printable
from django_redsess.online.listing import SearchFilters
from django_redsess.online.networks import FROM_FILE, NetworkListError, read_networks, require_networks

CLIENT_FILTERS = ("network", "browser", "system", "device_bound")
"""The names of the options, as a parser stores them."""


def add_client_filters(parser: CommandParser) -> None:
    """Add the options :data:`CLIENT_FILTERS`."""
    add = parser.add_argument
    network_help = (
        "only from this address or network: 198.51.100.7, 198.51.100.0/24, 198.51.100; from those in a file, one a "
        "line: @tor-exits.txt; or from a list of the setting NETWORKS, by its name; can be repeated"
    )
    add("--network", action="append", metavar="NETWORK", help=network_help)
    add("--browser", metavar="NAME", help="only of this browser, such as Firefox or 'Chrome 120'")
    add("--system", metavar="NAME", help="only of this operating system, such as Windows or Android")
    bound_help = "only sessions that are bound to a device, or with 'no' only the others"
    add("--device-bound", nargs="?", const="yes", choices=("yes", "no"), metavar="no", help=bound_help)


def given_filters(options: Mapping[str, Any]) -> list[str]:
    """Return the options that were given, as they are typed."""
    return [f"--{name.replace('_', '-')}" for name in CLIENT_FILTERS if options[name] is not None]


def client_filters(options: Mapping[str, Any]) -> SearchFilters:
    """Return the filters that were given. Raises CommandError for a wrong value, or a file that can't be used."""
    for option in ("browser", "system"):
        if options[option] is not None and not options[option].strip():
            raise CommandError(f"--{option} can't be empty.")
    return {
        "network": None if options["network"] is None else _networks(options["network"]),
        "browser": options["browser"],
        "system": options["system"],
        "device_bound": None if options["device_bound"] is None else options["device_bound"] == "yes",
    }


def about_empty_list(filters: SearchFilters) -> str:
    """Return how a sentence begins that says why nothing is found: the networks were in empty lists. Else ``""``."""
    return "The list of networks is empty. " if filters["network"] is not None and not filters["network"] else ""


def _networks(named: Sequence[str]) -> Sequence[str]:
    # A program may give one text.
    found = list[str]()
    for text in [named] if isinstance(named, str) else named:
        try:
            is_file = text.startswith(FROM_FILE) and text != FROM_FILE
            found += read_networks(text.removeprefix(FROM_FILE)) if is_file else require_networks(text)
        except NetworkListError as error:
            raise CommandError(f"--network: {error}") from error
        except ValueError as error:
            rule = "--network must be an address or a network, such as 198.51.100.7 or 198.51.100.0/24"
            or_other = "or @ and the name of a file, or a name in NETWORKS"
            named = printable(text) or "''"
            raise CommandError(f"{rule}, {or_other}, not {named}.") from error
    return found
