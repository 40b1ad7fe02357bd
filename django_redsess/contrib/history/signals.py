"""The signal about a sign-in on a new device. Public."""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["new_device"]

new_device = Signal()
"""
Sent after the response to a sign-in on a device on which this user had not signed in before.

The sender is :class:`~django_redsess.contrib.history.models.SignIn`. Receivers get ``request``; ``user``; ``sign_in``,
the row that was stored; and ``is_new_network``, whether no earlier sign-in of the user came from this network (the
first 16 bits of an IPv4 address, 48 of IPv6). The first device that is known of a user is not new.

A device is told by a cookie of its own: 16 random bytes, signed, for 400 days. Where it can't be sent, because the
site uses Django's own session middleware, another kind of browser or system is a new device. By networks alone most
alarms would be false: an address of a mobile network or a VPN is new nearly each day.
"""
