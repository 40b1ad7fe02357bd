"""The shop without a page on which users change their passwords."""

from testproject import urls

urlpatterns = [each for each in urls.urlpatterns if getattr(each, "name", None) != "password_change"]
