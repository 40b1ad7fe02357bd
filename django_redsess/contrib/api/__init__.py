"""The JSON API: sessions for front ends and other programs. Sites include ``django_redsess.contrib.api.urls``."""
