import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from pairs import compare  # noqa: E402  # needs the path

del sys.path[0]

SERVER = """
import json, os, sys

checkout = os.environ["PYTHONPATH"]
print(json.dumps({place}), flush=True)
for line in sys.stdin:
    name = json.loads(line)
    if name == "ends":
        break
    seconds = 3.0 if checkout == {here!r} else 2.0
    print(json.dumps("too long" if name == "slow" else seconds), flush=True)
"""


def server(tmp_path: Path, place: str = 'checkout + "/tenferro/__init__.py"') -> Path:
    program = tmp_path / "server.py"
    program.write_text(SERVER.format(place=place, here=str(ROOT)))
    return program


def test_times_are_ratios_to_the_other_checkout(tmp_path, capsys):
    assert compare(server(tmp_path), ["adi", "slow"], 3, tmp_path) == {"adi": 1.5}
    assert "here too long, there too long" in capsys.readouterr().out


def test_a_path_without_tenferro_is_refused(tmp_path):
    program = server(tmp_path, place=repr(str(ROOT / "tenferro" / "__init__.py")))
    with pytest.raises(SystemExit, match="is not a checkout"):
        compare(program, ["adi"], 1, tmp_path)


def test_a_server_that_ends_is_told(tmp_path):
    with pytest.raises(SystemExit, match="ended with status 0"):
        compare(server(tmp_path), ["ends"], 1, tmp_path)
