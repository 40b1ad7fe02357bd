"""The URLs of knox_site. They import models, so they cannot be in the settings."""

from django.urls import include, path
from knox.auth import TokenAuthentication
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView


class Root(APIView):
    authentication_classes = [TokenAuthentication]
    permission_classes = [IsAuthenticated]

    def get(self, request):
        return Response("signed in")


# The tests look for a view of that name.
urlpatterns = [path("api/", include("knox.urls")), path("", Root.as_view(), name="api-root")]
