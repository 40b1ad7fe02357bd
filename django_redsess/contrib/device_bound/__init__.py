"""
Device-bound sessions (DBSC): a copy of a session's cookie opens nothing.

Put ``django_redsess.contrib.device_bound`` into ``INSTALLED_APPS``, and include its ``urls``. It needs the extra
``device-bound``.
"""
