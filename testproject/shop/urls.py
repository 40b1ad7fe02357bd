from django.urls import path

from testproject.shop import views

app_name = "shop"
urlpatterns = [
    path("", views.home, name="home"),
    path("products/<slug:slug>/", views.product, name="product"),
    path("products/<slug:slug>/picture.svg", views.picture, name="picture"),
    path("popular/", views.popular, name="popular"),
    path("history/forget/", views.forget, name="forget"),
    path("basket/", views.basket_page, name="basket"),
    path("basket/<slug:slug>/add/", views.add, name="add"),
    path("basket/<slug:slug>/change/", views.change, name="change"),
]
