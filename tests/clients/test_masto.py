"""masto, the JavaScript client that Phanpy and Elk are made with, plays a story against a served Shoal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.api.world import picture
from tests.clients.installed import masto_command
from tests.clients.serving import Served

HERE = Path(__file__).resolve().parent / "masto"


def test_masto_plays(shoal: Served, tmp_path: Path) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    client = shoal.client(ann.token)
    (tmp_path / "sand.png").write_bytes(picture(64, 40))
    # Node's fetch reads no files: the picture comes from the server itself.
    held = client.media_post(str(tmp_path / "sand.png"))
    client.session.close()
    played = subprocess.run(
        masto_command(HERE / "story.mjs"),
        cwd=HERE,
        env={
            "PATH": "/usr/bin:/bin",
            "SHOAL_URL": shoal.url,
            "SHOAL_ANN": ann.token,
            "SHOAL_BEN": ben.token,
            "SHOAL_PICTURE": held.url,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert int(re.findall(r"played (\d+) calls", played.stdout)[0]) >= 100
