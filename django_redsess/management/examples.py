"""Commands whose help ends with examples, and that ask the server themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter


class CommandWithExamples(BaseCommand):
    """A command whose help shows ``examples``, each in a line of its own that can be copied."""

    examples: Sequence[str]
    # Not those that ask the server: the command asks it, and says itself what is wrong.
    requires_system_checks = (Tags.caches, Tags.security)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        epilog = "\n  ".join(["Examples:", *self.examples])
        return super().create_parser(prog_name, subcommand, formatter_class=_Help, epilog=epilog, **kwargs)


class _Help(DjangoHelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # The examples have several lines. The description has one, and is wrapped.
        return text if "\n" in text else super()._fill_text(text, width, indent)
