#!/bin/sh
# /usr/local/bin/shoal: the program of the server, as its user and with its settings.
umask 077
cd /srv/shoal || exit 1
exec runuser -u shoal -- /srv/shoal/venv/bin/shoal --config /srv/shoal/shoal.toml "$@"
