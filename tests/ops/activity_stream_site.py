"""Create a site with django-activity-stream in a new SQLite database, by its own migrations and functions.

python -m tests.ops.activity_stream_site site.db
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "actstream"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
    SECRET_KEY="of a test",
)
django.setup()

# Models can be imported once Django is set up.
from actstream import action, registry  # noqa: E402
from actstream.actions import follow  # noqa: E402
from actstream.models import Action  # noqa: E402
from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402


def main() -> None:
    call_command("migrate", verbosity=0)
    registry.register(User, Group, Action)
    ann, ben, cyd = [
        User.objects.create(
            username=name,
            first_name=name.title(),
            last_name="Lee",
            date_joined=datetime(2020, 1, day, tzinfo=UTC),
        )
        for day, name in enumerate(("ann", "ben", "cyd"), 1)
    ]
    group = Group.objects.create(name="sailors")
    follow(ann, ben)
    follow(ben, group)
    joined = datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC)
    action.send(ann, verb="joined", target=group, description="Ann joined the sailors", timestamp=joined)
    action.send(ben, verb="reached level 60", public=False)
    action.send(group, verb="grew")
    first = Action.objects.get(verb="joined")
    action.send(cyd, verb="commented", target=first, description="Welcome!")
    follow(ben, first, send_action=False, flag="liking")


if __name__ == "__main__":
    main()
