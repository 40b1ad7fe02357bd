"""Items as nobody would name them."""

from __future__ import annotations

STRANGE = [
    *("<script>alert(1)</script>", "a/b", "..", "%00", "\0", "a\r\nb", "\n", "\t", "\tx", "NaN", "add", "_5F", "a b"),
    *(" ", " kite ", "a:b", "%", "%25", "_", "'\"&amp;", "\u202eevil", "漢" * 21, "é" * 32, "x" * 64, "0", "-1", "+1"),
]
