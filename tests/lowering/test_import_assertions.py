"""Assertions of a module about its extents must be checked on import.

An assertion that cannot be checked must raise an error.
"""

from __future__ import annotations

import operator

import jax
import numpy as np
import pytest

from lowering import import_stablehlo
from tenferro import TensorSpec, errors


def asserted(condition: str) -> str:
    return f"""func.func @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {{
  %t = stablehlo.constant dense<true> : tensor<i1>
  %f = stablehlo.constant dense<false> : tensor<i1>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %less = stablehlo.compare LT, %n, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %more = stablehlo.compare GT, %n, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion({condition}, %n) {{api_version = 2 : i32,
    error_message = "rows must be many, got {{0}}", has_side_effect = true}} : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<3xf32>
}}"""


@pytest.mark.parametrize("condition", ["%t", "%less"])
def test_what_holds_is_dropped(condition: str) -> None:
    x = np.arange(3, dtype="f4")
    np.testing.assert_array_equal(import_stablehlo(asserted(condition)).run(x, True), x)


@pytest.mark.parametrize("condition", ["%f", "%more"])
def test_what_does_not_hold_is_an_error_with_its_message(condition: str) -> None:
    with pytest.raises(errors.ShapeError, match="rows must be many, got 3"):
        import_stablehlo(asserted(condition))


def test_what_depends_on_elements_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"elements: rows must be many"):
        import_stablehlo(asserted("%p"))


def test_assertions_of_functions_whose_extents_are_handed_through() -> None:
    """Modules that JAX exports contain constraints on symbols.

    The constraints must be checked, also for extents that are passed to called functions.
    """
    n = jax.export.symbolic_shape("n", constraints=["n >= 4"])
    exported = jax.export.export(jax.jit(lambda x: x + x))(jax.ShapeDtypeStruct(n, "float32"))
    body = exported.mlir_module()
    for extent, fits in ((5, True), (3, False)):
        text = body.replace("func.func public @main(", "func.func private @polymorphic(")
        kind = f"tensor<{extent}xf32>"
        caller = f"""  func.func public @main(%x: {kind}) -> {kind} {{
    %a = stablehlo.convert %x : ({kind}) -> tensor<?xf32>
    %r = func.call @polymorphic(%a) : (tensor<?xf32>) -> tensor<?xf32>
    %b = stablehlo.convert %r : (tensor<?xf32>) -> {kind}
    return %b : {kind}
  }}
"""
        place = text.index("  func.func private @polymorphic")
        text = text[:place] + caller + text[place:]
        if fits:
            x = np.arange(extent, dtype="f4")
            np.testing.assert_array_equal(import_stablehlo(text).run(x), 2 * x)
        else:
            with pytest.raises(errors.ShapeError, match=r"n >= 4|Expected"):
                import_stablehlo(text)


HOLDS = {
    "EQ": operator.eq,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
    "NE": operator.ne,
}


def related(direction: str) -> str:
    """Return the text of a function of two vectors. It asserts that their lengths have a certain order."""
    return f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %holds = stablehlo.compare {direction}, %n, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%holds, %n) {{api_version = 2 : i32,
    error_message = "lengths must fit, got {{0}}", has_side_effect = true}} : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<?xf32>
}}"""


@pytest.mark.parametrize("direction", HOLDS)
def test_what_a_run_decides_is_asked_of_every_run(direction: str) -> None:
    specs = [TensorSpec((name,), "float32") for name in "nm"]
    program = import_stablehlo(related(direction), specs)
    for n, m in ((2, 2), (2, 3), (3, 2), (2, 7), (7, 2)):
        x, y = np.arange(n, dtype="f4"), np.zeros(m, "f4")
        if HOLDS[direction](n, m):
            np.testing.assert_array_equal(program.run(x, y), x)
        else:
            with pytest.raises(errors.ShapeError):
                program.run(x, y)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("rows: {0} of {1}", "rows: 3 of 4"), ("{1} {0} {1} {2}", "4 3 4 {2}"), ("none", "none"),
        ("a. Obtained {0}. Using b", "a. Obtained 3. Using b"),
    ],
)  # fmt: skip
def test_numbers_in_messages(message: str, shown: str) -> None:
    text = asserted("%more").replace("(%more, %n)", "(%more, %n, %four)")
    text = text.replace("(tensor<i1>, tensor<i32>) -> ()", "(tensor<i1>, tensor<i32>, tensor<i32>) -> ()")  # fmt: skip
    with pytest.raises(errors.ShapeError) as caught:
        import_stablehlo(text.replace("rows must be many, got {0}", message))
    first = str(caught.value).splitlines()[0]
    assert first == f"shape_assertion does not hold: {shown}"


def test_an_assertion_without_a_message() -> None:
    text = asserted("%f").replace('error_message = "rows must be many, got {0}",', "")
    with pytest.raises(errors.ShapeError, match="shape_assertion does not hold: no message"):
        import_stablehlo(text)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("lengths fit", "lengths fit"), ("lengths fit. Obtained {0} here", "lengths fit."),
        ("lengths fit. Using a, Obtained b", "lengths fit."), ("Obtained it", "Obtained it"),
    ],
)  # fmt: skip
def test_guards_say_what_a_message_begins_with(message: str, shown: str) -> None:
    specs = [TensorSpec((name,), "float32") for name in "nm"]
    program = import_stablehlo(related("GE").replace("lengths must fit, got {0}", message), specs)
    (guard,) = program.guards
    assert guard.reason == f"shape_assertion: {shown}"


@pytest.mark.parametrize(
    "target", ["LayoutConstraint", "MoveToHost", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "xla.sdy.FuncResultSharding"]
)  # fmt: skip
def test_annotations_are_what_they_annotate(target: str) -> None:
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %y = stablehlo.custom_call @{target}(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}}"""
    assert not import_stablehlo(text).instructions
