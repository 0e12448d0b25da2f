"""Tree functions must agree with jax.tree.

They must also support dataclasses and registered classes, and explain why two structures differ.
"""

from __future__ import annotations

import collections
import dataclasses
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import tree_util
from jax.flatten_util import ravel_pytree

import tenferro as tnf
from tenferro import tree
from tenferro.errors import (
    ArityError,
    DTypeError,
    InvalidConfigError,
    RegistrationError,
    ShapeError,
)


class Point(NamedTuple):
    x: Any
    y: Any


def _default() -> Any:
    result = collections.defaultdict(list)
    result["b"], result["a"] = 1, (2, 3)
    return result


TREES = {
    "number": 1,
    "none": None,
    "sequences": [1, (2, [3]), ()],
    "dict": {"b": 1, "a": {"d": 2, "c": 3}},
    "ordered": collections.OrderedDict(b=1, a=2),
    "default": _default(),
    "named": Point(1, [Point(2, 3)]),
    "holes": {"a": None, "b": (None, 1)},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_are_those_of_jax(name: str) -> None:
    given = TREES[name]
    assert tree.leaves(given) == jax.tree.leaves(given)
    ours = [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path(given)]
    theirs = [(tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(given)]
    assert ours == theirs
    assert tree.map(lambda x: x * 2, given) == jax.tree.map(lambda x: x * 2, given)
    leaves, treedef = tree.flatten(given)
    assert tree.unflatten(treedef, leaves) == given
    assert tree.structure(given) == treedef
    assert type(tree.map(lambda x: x, given)) is type(given)


def test_paths_are_keys_of_their_kind() -> None:
    ((path, _),) = tree.leaves_with_path({"w": [Point(1, None)]})
    assert path == (tree.DictKey("w"), tree.SequenceKey(0), tree.GetAttrKey("x"))
    ((path, _),) = tree.leaves_with_path(Node(1))
    assert path == (tree.FlattenedIndexKey(0),)


def test_leaves_by_a_predicate() -> None:
    given = [(1, 2), {"a": (3, None)}]
    pairs: Any = lambda node: isinstance(node, tuple)
    assert tree.leaves(given, is_leaf=pairs) == jax.tree.leaves(given, is_leaf=pairs)
    assert tree.map(len, given, is_leaf=pairs) == [2, {"a": 2}]
    nothing: Any = lambda node: node is None
    assert tree.leaves((None, 1), is_leaf=nothing) == [None, 1]
    layer: Any = lambda node: isinstance(node, Layer)
    assert len(tree.leaves([Layer(1, 2)], is_leaf=layer)) == 1


def test_maps_over_several_trees() -> None:
    assert tree.map(lambda a, b: (a, b), [1, 2], [(3, 4), {"k": 5}]) == [(1, (3, 4)), (2, {"k": 5})]
    paths = tree.map_with_path(lambda path, a, b: (tree.keystr(path), a + b), {"a": 1}, {"a": 2})
    assert paths == {"a": ("['a']", 3)}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"a": (1, 2)}, {"a": (1,)}, r"tree\['a'\] is a tuple of 2, and rest\[0\]\['a'\] a tuple of 1"),
        ({"a": 1}, {"b": 1}, r"tree is a dict with the keys 'a', and rest\[0\] a dict with the keys 'b'"),
        ([(1, 2)], [3], r"tree\[0\] is a tuple of 2, and rest\[0\]\[0\] a leaf"),
        ([None], [3], r"tree\[0\] is None, and rest\[0\]\[0\] a leaf"),
        (Point(1, (2,)), Point(1, [2]), r"tree.y is a tuple of 1, and rest\[0\].y a list of 1"),
    ],
)  # fmt: skip
def test_maps_over_unlike_trees_say_where(first: Any, second: Any, words: str) -> None:
    with pytest.raises(ArityError, match=words):
        tree.map(lambda a, b: a, first, second)


def test_reductions_and_transposition() -> None:
    given = {"a": [1, 2], "b": [3, 4]}
    assert tree.reduce(lambda a, b: a - b, given) == jax.tree.reduce(lambda a, b: a - b, given)
    assert tree.reduce(lambda a, b: a + b, (), 5) == 5
    with pytest.raises(ArityError, match="initializer"):
        tree.reduce(lambda a, b: a + b, ())
    assert tree.all({"a": True, "b": []})
    assert not tree.all([True, 0])
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure([0, 0])
    expected = [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert tree.transpose(outer, inner, given) == expected
    assert tree.transpose(outer, None, given) == expected
    with pytest.raises(ArityError):
        tree.transpose(outer, inner, {"a": [1, 2], "b": [3]})
    with pytest.raises(ArityError, match="takes 2 leaves, got 3"):
        tree.unflatten(outer, [1, 2, 3])


# ---- one vector ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"w": np.arange(6.0).reshape(2, 3), "b": np.float64(7)},
        (np.ones(2, np.float32), [np.zeros((2, 0), np.float32)]),
        (np.ones(2, np.complex64), np.full(3, 2, np.float32)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ],
)
def test_ravel_is_that_of_jax(given: Any) -> None:
    vector, back = tree.ravel(given)
    with jax.enable_x64(True):
        expected, _ = ravel_pytree(given)
    np.testing.assert_array_equal(vector, expected)
    assert vector.dtype == expected.dtype
    for leaf, original in zip(tree.leaves(back(vector)), tree.leaves(given), strict=True):
        assert leaf.dtype == original.dtype
        np.testing.assert_array_equal(leaf, original)


def test_ravel_keeps_integers_exactly() -> None:
    given = (np.array([2**31 - 1], np.int32), np.array([0.5], np.float32))
    vector, back = tree.ravel(given)
    assert vector.dtype == np.float64
    np.testing.assert_array_equal(back(vector)[0], given[0])


def test_ravel_of_nothing() -> None:
    vector, back = tree.ravel({"a": None})
    assert vector.shape == (0,)
    assert back(vector) == {"a": None}


def test_ravel_in_traces_and_on_eager_tensors() -> None:
    def loss(p: Any) -> Any:
        vector, back = tree.ravel(p)
        return tnf.sum(vector**2) + tnf.sum(back(3 * vector)["w"])

    params = {"w": np.arange(4.0).reshape(2, 2), "b": np.array([5.0])}
    expected = {"w": 2 * params["w"] + 3, "b": 2 * params["b"]}
    for gradient in (tnf.grad(loss)(params), tnf.jit(tnf.grad(loss))(params)):
        tree.map(np.testing.assert_allclose, gradient, expected)
    runtime = tnf.EagerRuntime()
    variables = tree.map(runtime.variable, params)
    loss(variables).backward()
    tree.map(lambda v, g: np.testing.assert_allclose(v.grad, g), variables, expected)


def test_vectors_that_do_not_fit_are_refused() -> None:
    _, back = tree.ravel([np.ones(3)])
    with pytest.raises(ShapeError, match=r"expected f64\[3\], got f64\[4\]"):
        back(np.ones(4))
    with pytest.raises(DTypeError, match="float64"):
        back(np.ones(3, np.float32))


# ---- dataclasses -----------------------------------------------------------------------------


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = tree.static(default="dense")


@dataclasses.dataclass(frozen=True)
class Model:
    layers: list[Layer]
    scale: float
    power: int = dataclasses.field(default=2, metadata={"static": True})


def model() -> Model:
    return Model([Layer(np.ones((2, 2)), np.zeros(2)), Layer(np.eye(2), None, "last")], 2.0)


def apply(m: Model, x: Any) -> Any:
    for layer in m.layers:
        x = x @ layer.weight + (0 if layer.bias is None else layer.bias)
    return tnf.sum(m.scale * x**m.power)


def test_dataclasses_are_trees_of_their_fields() -> None:
    names = [tree.keystr(path) for path, _ in tree.leaves_with_path(model())]
    assert names == [".layers[0].weight", ".layers[0].bias", ".layers[1].weight", ".scale"]
    doubled = tree.map(lambda x: 2 * x, model())
    assert (doubled.scale, doubled.power, doubled.layers[1].name) == (4.0, 2, "last")


def test_programs_take_and_give_dataclasses() -> None:
    x = np.array([1.0, 2.0])
    gradient = tnf.grad(apply)(model(), x)
    assert type(gradient) is Model
    np.testing.assert_allclose(gradient.layers[0].bias, [12.0, 12.0])
    again = tnf.jit(tnf.grad(apply))(model(), x)
    tree.map(np.testing.assert_allclose, again, gradient)
    program = tnf.compile(lambda m: m, model())
    assert program.run(model()).layers[1].name == "last"
    batch = tnf.vmap(apply, in_axes=(None, 0))(model(), np.stack([x, x]))
    np.testing.assert_allclose(batch, [apply(model(), x)] * 2)


def test_dataclasses_are_carried_by_loops() -> None:
    def step(m: Model, x: Any) -> Any:
        return dataclasses.replace(m, scale=m.scale * x), m.scale

    last, scales = tnf.scan(step, model(), np.array([2.0, 3.0]))
    assert last.scale == 12
    np.testing.assert_allclose(scales, [2.0, 4.0])


def test_static_fields_are_part_of_the_structure() -> None:
    jitted = tnf.jit(apply)
    x = np.array([1.0, 2.0])
    second = jitted(model(), x)
    third = jitted(dataclasses.replace(model(), power=3), x)
    assert jitted.cache_stats().misses == 2
    assert second != third
    with pytest.raises(ArityError, match=r"tree is .*Model\[\(2,\)\].*Model\[\(3,\)\]"):
        tree.map(lambda a, b: a, model(), dataclasses.replace(model(), power=3))


@pytest.mark.parametrize("name", [["dense"], np.ones(2)])
def test_static_fields_are_hashable(name: Any) -> None:
    with pytest.raises(InvalidConfigError, match=r"Layer must be hashable.*unhashable type"):
        tnf.jit(lambda layer: layer.weight)(Layer(np.ones(2), None, name))


def test_arrays_that_are_dataclasses_are_leaves() -> None:
    spec = tnf.TensorSpec((2,), "float64")
    assert tree.leaves({"x": spec}) == [spec]


def test_fields_can_be_named() -> None:
    @dataclasses.dataclass
    class Fit:
        slope: Any
        label: Any
        cache: Any = None

    before = tree.leaves(Fit(1, 2, 3))
    tree.register_dataclass(
        Fit, data_fields=["slope"], meta_fields=["label"], drop_fields=["cache"]
    )
    assert before == [1, 2, 3]
    assert tree.leaves(Fit(1, 2, 3)) == [1]
    assert tree.map(lambda x: x, Fit(1, 2, 3)) == Fit(1, 2)
    with pytest.raises(RegistrationError):
        tree.register_dataclass(Fit)


@pytest.mark.parametrize(
    "arguments",
    [
        (["slope"], None),
        (["slope"], []),
        (["slope", "slope"], ["label"]),
        (["slope", "x"], ["label"]),
    ],
)
def test_fields_that_do_not_add_up_are_refused(arguments: Any) -> None:
    @dataclasses.dataclass
    class Fit:
        slope: Any
        label: Any

    with pytest.raises(RegistrationError):
        tree.register_dataclass(Fit, *arguments)
    with pytest.raises(RegistrationError):
        tree.register_dataclass(int)


# ---- other classes ---------------------------------------------------------------------------


class Node:
    def __init__(self, child: Any) -> None:
        self.child = child


tree.register_pytree_node(Node, lambda node: ((node.child,), "n"), lambda rest, kids: Node(*kids))


def test_registered_classes() -> None:
    assert tree.map(lambda x: x + 1, Node([1])).child == [2]
    with pytest.raises(RegistrationError, match="Node"):
        tree.register_pytree_node(Node, lambda n: ((), None), lambda rest, kids: Node(None))
    with pytest.raises(RegistrationError):
        tree.register_pytree_node(dict, lambda n: ((), None), lambda rest, kids: {})
    with pytest.raises(InvalidConfigError, match="tree_flatten"):
        tree.register_pytree_node_class(int)


def test_children_with_keys() -> None:
    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    def with_keys(pair: Any) -> Any:
        keys = tree.GetAttrKey("left"), tree.GetAttrKey("right")
        return zip(keys, (pair.left, pair.right), strict=True), None

    tree.register_pytree_node(
        Pair, lambda p: ((p.left, p.right), None), lambda rest, kids: Pair(*kids), with_keys
    )
    assert [tree.keystr(p) for p, _ in tree.leaves_with_path(Pair(1, 2))] == [".left", ".right"]


def test_classes_that_jax_knows_are_trees() -> None:
    @tree_util.register_pytree_node_class
    class Tank:
        def __init__(self, level: Any) -> None:
            self.level = level

        def tree_flatten(self) -> Any:
            return (self.level,), "full"

        @classmethod
        def tree_unflatten(cls, rest: Any, children: Any) -> Any:
            return cls(*children)

    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Valve:
        flow: Any
        kind: str = dataclasses.field(metadata={"static": True})

    given = {"tank": Tank(np.array([1.0, 2.0])), "valve": Valve(np.array(3.0), "ball")}
    gradient = tnf.grad(lambda p: tnf.sum(p["tank"].level ** 2) * p["valve"].flow)(given)
    np.testing.assert_allclose(gradient["tank"].level, [6.0, 12.0])
    assert gradient["valve"].kind == "ball"
    assert tree.leaves_with_path(given)[1][0][1] == tree.GetAttrKey("flow")
    partial = tree_util.Partial(lambda a, b: a * b, np.array(2.0))
    assert tnf.jit(lambda f: f(3.0))(partial) == 6


def test_named_tuples_that_jax_flattens_in_its_own_way() -> None:
    """A NamedTuple that is registered with JAX is flattened by its registration.

    The states of `jax.example_libraries.optimizers` are such classes: they contain leaves and the structure of a
    tree.
    """

    class State(NamedTuple):
        packed: Any
        structure: Any

    tree_util.register_pytree_node(
        State, lambda s: ((s.packed,), s.structure), lambda rest, kids: State(kids[0], rest)
    )
    state = State([np.array([1.0, 2.0])], tree_util.tree_structure({"w": 0}))
    assert tree.structure(state).num_leaves == 1
    gradient = tnf.grad(lambda s: tnf.sum(s.packed[0] ** 2))(state)
    np.testing.assert_allclose(gradient.packed[0], [2.0, 4.0])
    assert gradient.structure == state.structure


def test_jax_is_not_imported_for_trees() -> None:
    program = (
        "import sys, tenferro as tnf\n"
        "class C: pass\n"
        "assert len(tnf.tree.leaves([C(), (1, None)])) == 2\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- different structures --------------------------------------------------------------------


def dictionary(x: Any) -> Any:
    return {"a": x, "b": (x, x)}


def other_dictionary(x: Any) -> Any:
    return {"a": x, "b": (x, [x])}


PARTING = r"\['b'\]\[1\] is a leaf, and {}\['b'\]\[1\] a list of 1"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: tnf.cond(tnf.sum(x) > 0, dictionary, other_dictionary, x),
            r"false_fun\(..\)\['b'\]\[1\] is a list of 1, and true_fun\(..\)\['b'\]\[1\] a leaf",
        ),
        (
            lambda x: tnf.switch(1, [dictionary, dictionary, other_dictionary], x),
            r"switch: .*branch 0\(..\)" + PARTING.format(r"branch 2\(..\)"),
        ),
        (
            lambda x: tnf.scan(lambda c, _: (other_dictionary(x), None), dictionary(x), length=2),
            "scan: .*the carry" + PARTING.format("the next"),
        ),
        (
            lambda x: tnf.associative_scan(lambda a, b: other_dictionary(x), dictionary(x)),
            "associative_scan: .*elems" + PARTING.format(r"fn\(..\)"),
        ),
        (
            lambda x: tnf.vjp(dictionary, x)[1](other_dictionary(x)),
            "vjp: .*expected" + PARTING.format("got"),
        ),
        (
            lambda x: tnf.compile(lambda p: p["b"], dictionary(x)).run(other_dictionary(x)),
            r"expected\[0\]" + PARTING.format(r"got\[0\]"),
        ),
        (
            lambda x: tnf.jit(tnf.compile(lambda p: p["b"], dictionary(x)).run)(
                other_dictionary(x)
            ),
            r"expected\[0\]" + PARTING.format(r"got\[0\]"),
        ),
    ],
)
def test_errors_say_where_structures_part(call: Any, words: str) -> None:
    with pytest.raises(ArityError, match=words) as caught:
        call(np.ones(2))
    assert "PyTreeSpec" not in str(caught.value)


def test_a_rule_of_another_structure_says_where() -> None:
    f = tnf.custom_vjp(lambda p: tnf.sum(p["b"][0]))
    f.defvjp(lambda p: (f(p), p), lambda p, bar: (other_dictionary(bar * p["a"]),))
    with pytest.raises(ArityError, match="expected" + PARTING.format("got")):
        tnf.grad(f)(dictionary(np.ones(2)))
