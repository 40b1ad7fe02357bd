"""Names in a script that are not defined where they are used, or that hide another. A server tells only at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator

KEYWORDS = {
    *("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not"),
    *("or", "repeat", "return", "then", "true", "until", "while"),
}

GLOBALS = {
    *("KEYS", "ARGV", "redis", "struct"),
    *("ipairs", "pairs", "pcall", "tonumber", "type", "unpack", "math", "string", "table"),
}
"""What the server and Lua define, as far as the scripts use it."""

_TOKEN = re.compile(r"--[^\n]*|\"(?:\\.|[^\"\\])*\"|\n|[A-Za-z_]\w*|\d[\w.]*|\.{2,3}|[=~<>]=|\S")


def problems(text: str) -> list[str]:
    """Return what is wrong with the names in ``text``, each with its line."""
    return list(_Reading(text).problems())


class _Reading:
    def __init__(self, text: str) -> None:
        line = 1
        self.tokens: list[tuple[str, int]] = []
        for token in _TOKEN.findall(text):
            if token == "\n":
                line += 1
            elif not token.startswith("--"):
                self.tokens.append((token, line))
        self.scopes: list[set[str]] = [set()]

    def problems(self) -> Iterator[str]:
        at, loop_names = 0, list[str]()
        while at < len(self.tokens):
            token, line = self.tokens[at]
            names: list[str] = []
            if token == "local" and self._text(at + 1) != "function":
                at, names = self._names(at + 1)
            elif token == "function":
                if self._text(at - 1) == "local":
                    yield from self._define([self._text(at + 1)], line)
                at = next(place for place in range(at, len(self.tokens)) if self._text(place) == "(")
                at, names = self._names(at + 1)
                self.scopes.append(set())
            elif token == "for":
                at, loop_names = self._names(at + 1)
            elif token in ("do", "then", "repeat", "else"):
                if token == "else":
                    self.scopes.pop()
                self.scopes.append(set())
                names, loop_names = loop_names, []
                at += 1
            else:
                if token in ("end", "until", "elseif"):
                    self.scopes.pop()
                elif self._is_use(at) and not any(token in scope for scope in self.scopes):
                    yield f"line {line}: {token} is not defined"
                at += 1
            yield from self._define(names, line)

    def _text(self, at: int) -> str:
        return self.tokens[at][0] if 0 <= at < len(self.tokens) else ""

    def _names(self, at: int) -> tuple[int, list[str]]:
        names = []
        while re.fullmatch(r"[A-Za-z_]\w*", self._text(at)):
            names.append(self._text(at))
            at += 1
            if self._text(at) != ",":
                break
            at += 1
        return at, names

    def _define(self, names: list[str], line: int) -> Iterator[str]:
        for name in names:
            # A second "_" is the same as the first: a value that nobody needs.
            if name != "_" and (name in GLOBALS or any(name in scope for scope in self.scopes)):
                yield f"line {line}: {name} hides another"
            self.scopes[-1].add(name)

    def _is_use(self, at: int) -> bool:
        token = self._text(at)
        if not re.fullmatch(r"[A-Za-z_]\w*", token) or token in KEYWORDS or token in GLOBALS:
            return False
        is_field = self._text(at - 1) == "." or (self._text(at - 1) in ("{", ",") and self._text(at + 1) == "=")
        return not is_field
