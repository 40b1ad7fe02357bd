"""
Processes that use the site of their settings as its visitors, an administrator and a shell do.

Some settings are fixed for a process: the user model, the apps. A test of those starts one (tests/helpers/driving.py).
``theme`` goes through every page of the admin, ``user_models`` is about users whose keys are no numbers; ``pages`` is
what both share.
"""
