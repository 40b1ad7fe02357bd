"""The signal about a sign-in on a new device. Public."""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["new_device"]

new_device = Signal()
"""
Sent after the response to a sign-in on a device on which this user had not signed in before.

The sender is :class:`~django_redsess.contrib.history.models.SignIn`. Receivers get ``request``; ``user``; ``sign_in``,
the stored row; and ``is_new_network``, whether no earlier sign-in of the user came from this network (the first 16 bits
of an IPv4 address, 48 of IPv6). A user's first known device is not new.

A device is recognized by a cookie of its own: 16 random bytes, signed, for 400 days. If the site uses Django's own
session middleware, this cookie can't be sent: then another browser or operating system is a new device. Networks alone
would give mostly false alarms: addresses of mobile networks and VPNs change nearly each day.
"""
