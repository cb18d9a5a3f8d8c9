#!/bin/sh
# /usr/local/bin/shoal: runs the shoal command as the user of the server and with its settings.
umask 077
cd /srv/shoal || exit 1
exec runuser -u shoal -- /srv/shoal/venv/bin/shoal --config /srv/shoal/shoal.toml "$@"
