"""Use a served Shoal with a client that openapi-python-client generated. Prints "done" if every answer is the one expected."""

from __future__ import annotations

import importlib
import os
import pkgutil

import generated.api
from generated import AuthenticatedClient, Client
from generated.api.sessions import post_oauth_token, post_v1_apps
from generated.api.statuses import delete_v1_statuses_id, get_v1_statuses_id, post_v1_statuses
from generated.models import Error, PostOauthTokenBody, PostV1AppsBody, PostV1StatusesBody

for module in pkgutil.walk_packages(generated.api.__path__, "generated.api."):
    importlib.import_module(module.name)

url = os.environ["SHOAL_URL"]
with Client(base_url=url) as anyone:
    for uris in ("urn:ietf:wg:oauth:2.0:oob", ["urn:ietf:wg:oauth:2.0:oob", "https://example.org/cb"]):
        app = post_v1_apps.sync(client=anyone, body=PostV1AppsBody(client_name="generated", redirect_uris=uris))
        asked = PostOauthTokenBody(
            grant_type="client_credentials", client_id=app.client_id, client_secret=app.client_secret
        )
        assert post_oauth_token.sync(client=anyone, body=asked).token_type == "Bearer"
with AuthenticatedClient(base_url=url, token=os.environ["SHOAL_TOKEN"]) as member:
    made = post_v1_statuses.sync(client=member, body=PostV1StatusesBody(status="Low tide at #dawn"))
    assert get_v1_statuses_id.sync(made.id, client=member).content == made.content
    delete_v1_statuses_id.sync(made.id, client=member)
    assert isinstance(get_v1_statuses_id.sync(made.id, client=member), Error)
print("done")  # noqa: T201 (its answer to the test)
