"""masto, the JavaScript client library of Phanpy and Elk, runs a story against a served Shoal."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

from tests.api.in_memory_network import picture
from tests.clients.client_programs import masto_command
from tests.clients.server import Served

HERE = Path(__file__).resolve().parent / "masto"


def test_masto_js_client_scenario_runs_without_errors(shoal: Served) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    client = shoal.client(ann.token)
    # Node's fetch does not read files: the server provides the picture.
    held = client.media_post(io.BytesIO(picture(64, 40)), mime_type="image/png", file_name="sand.png")
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
        timeout=600,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert int(re.findall(r"played (\d+) calls", played.stdout)[0]) >= 95
