"""Try one platform in a separate process: `python -m xla_peer.probe cuda` prints JSON.

A plugin may end its process, hang, or leave jax unusable; therefore `doctor` runs this in a child process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

__all__ = ["probe"]


def probe(platform: str) -> dict[str, Any]:
    """Return devices and versions of a platform, after running a program on it."""
    if os.path.sep not in platform:
        os.environ["JAX_PLATFORMS"] = platform  # of this process, which tries this platform alone
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
    except Exception as error:  # because any exception is an answer
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))
