"""Nearly all parameters of public functions must have type annotations."""

import ast

from tools.annotations import empty_aliases, parameters, share


def test_few_parameters_say_nothing():
    for package, bound in (("tenferro/api", 0.10), ("tenferro/lax", 0.20), ("tenferro/nn", 0.25)):
        counted, fraction = share(package)
        assert len(counted) > 200
        assert fraction < bound, package


def test_aliases_of_any_say_nothing(tmp_path):
    source = """
Anything = Any
Same: TypeAlias = "Anything | None"
Told = list[Any]

def function(self, a, b: Any, c: object, d: Same, e: Told, *f: int, **g: typing.Any): ...
"""
    (tmp_path / "module.py").write_text(source)
    told = {p.name: p.is_told for p in parameters(tmp_path, empty_aliases([ast.parse(source)]))}
    assert told == {
        "a": False,
        "b": False,
        "c": False,
        "d": False,
        "e": True,
        "f": True,
        "g": False,
    }
