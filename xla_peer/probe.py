"""Trial run of one platform: `python -m xla_peer.probe cuda` prints the result as JSON.

A plugin may end its process, hang, or leave jax unusable, so `doctor` runs this module in a child process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

__all__ = ["probe"]


def probe(platform: str) -> dict[str, Any]:
    """Run a program on a platform; return the devices, the version, and whether the result is right."""
    if os.path.sep not in platform:
        os.environ["JAX_PLATFORMS"] = platform  # this process tries only one platform
    import numpy as np

    import tenferro as tnf
    from xla_peer import XlaExecutor

    xla = XlaExecutor(platform)
    client = xla.device.client
    x = np.arange(4, dtype=np.float32)
    program = tnf.compile(lambda x: tnf.sum(x * x), x)
    right = float(xla.run(program, x)) == 14.0
    return {
        "devices": [f"{device} ({device.device_kind})" for device in client.local_devices()],
        "version": str(client.platform_version).strip().splitlines()[0],
        "runs": right,
    }


if __name__ == "__main__":
    try:
        answer = probe(sys.argv[1])
    except Exception as error:  # because every exception is reported to `doctor`
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))
