"""The settings of the site: a minimum, and brooq's."""

from __future__ import annotations

import os

from psycopg.conninfo import conninfo_to_dict

from examples.database import given

_place = conninfo_to_dict(given())
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _place["dbname"],
        "USER": _place.get("user", ""),
        "PASSWORD": _place.get("password", ""),
        "HOST": _place.get("host", ""),
        "PORT": _place.get("port", ""),
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "brooq.contrib.django",
    "examples.django_shop.shop",
]
BROOQ = {"WORKERS": 4}
TASKS = {"default": {"BACKEND": "brooq.contrib.django.tasks.BrooqBackend"}}

SECRET_KEY = os.environ.get("SECRET_KEY", "an example has none")
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "examples.django_shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
