"""`text_tree`, which parses a module's text, in MLIR's generic form or in pretty forms, to a tree.

Regions are parsed without recursion. A stack contains a generator for each operation one of whose regions is being
parsed.

Source: MLIR language reference; StableHLO specification, "Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_tree import Block, Function, ModuleTree, Operation
from lowering.syntax.attributes import FunctionType
from lowering.syntax.elements import resource_elements
from lowering.syntax.forms import REGION_FORMS
from lowering.syntax.function import function_of
from lowering.syntax.pretty import STEPS, FormParser
from lowering.syntax.tokens import END, Tokens
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.types import TensorSpec

__all__ = ["text_tree"]

ISOLATED = frozenset({"chlo.scan"})
"""Operations whose regions cannot use values that are defined outside."""
_NAME = re.compile(r"[A-Za-z_][\w$\-]*(?:\.[\w$\-]+)+")

Waiting = Generator["_Region", Block, Any]
"""Generator that reads one operation.

It yields each region of the operation, receives the region's block, and finally returns the operation.
"""


def text_tree(text: str) -> ModuleTree:
    """Parse the text of a module.

    Raises:
        MlirDiagnosticError: the text is not a module; the error contains the line and column.
        InvalidConfigError: brackets are nested more deeply than the parser allows.
        UnsupportedError: a region has several blocks.
    """
    return _TextParser(Tokens(text)).module()


class _Region:
    """Description of a region that is to be read.

    Attributes:
        names, types: the arguments of its block, if they precede the region in the text.
        is_function: whether the region is the body of a function.
        is_isolated: whether the region cannot use values that are defined outside.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        types: Sequence[Any] = (),
        is_function: bool = False,
        is_isolated: bool = False,
    ) -> None:
        self.names = names
        self.types = types
        self.is_function = is_function
        self.is_isolated = is_function or is_isolated


class _OpenModule:
    """Module that is being read, with its symbols, and the number of its operations.

    Attributes:
        properties: the properties of a module in the generic form; None for the pretty form.
    """

    def __init__(
        self, tree: ModuleTree, at: int = 0, properties: dict[str, Any] | None = None
    ) -> None:
        self.tree = tree
        self.at = at
        self.properties = properties
        self.symbols: set[str] = set()
        self.count = 0


class _Frame:
    """Block that is being read.

    Attributes:
        scope: the values that the block can use, by name.
        defined: the names that the block has defined, which are removed from the scope at its end.
        waiting: the generator that waits for the block.
    """

    def __init__(
        self,
        block: Block,
        scope: dict[str, Any],
        defined: list[str],
        is_function: bool,
        waiting: Any,
    ) -> None:
        self.block = block
        self.scope = scope
        self.defined = defined
        self.is_function = is_function
        self.waiting = waiting


class _TextParser(FormParser):
    """Parser of operations, regions and modules."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.is_function = False
        self.defined: list[str] = []
        self.pending: list[tuple[Operation | None, str, int]] = []
        self.resources: dict[str, str] = {}
        self.resource_operations: list[Operation] = []

    # ---- modules -----------------------------------------------------------------------------

    def module(self) -> ModuleTree:
        """Read the text; return its only operation if that is a module, else a module that contains all operations."""
        around = _OpenModule(ModuleTree("main"))
        stack = [around]
        while True:
            word = self.words[self.at]
            is_top = len(stack) == 1
            if is_top and word == END:
                break
            if is_top and word == "{-#":
                self._resources()
            elif is_top and word[:1] in ("#", "!") and self.words[self.at + 1] == "=":
                self._alias()
            elif word in ("module", "builtin.module"):
                stack.append(self._module_head(stack[-1]))
            elif word == '"builtin.module"':
                stack.append(self._generic_module_head())
            elif not is_top and word == "}":
                self.at += 1
                module = stack.pop()
                self._module_end(module, stack[-1])
            else:
                self._module_operation(stack[-1])
        self._resolve_locations()
        self._resolve_resources()
        is_one_module = around.count == len(around.tree.nested) == 1
        return around.tree.nested[0] if is_one_module else around.tree

    def _module_head(self, outer: _OpenModule) -> _OpenModule:
        self.at += 1
        tree = ModuleTree("main")
        if self.words[self.at].startswith("@"):
            at = self.at
            tree.name = self.symbol()
            self._declare(outer, tree.name, at)
        if self.accept("attributes"):
            tree.attributes = self.dictionary()
        self.expect("{")
        return _OpenModule(tree)

    def _generic_module_head(self) -> _OpenModule:
        at = self.at
        self.at += 1
        self.expect("(")
        self.expect(")")
        properties = self._properties()
        self.expect("(")
        self.expect("{")
        if self.words[self.at].startswith("^") and self.words[self.at + 1] == ":":
            self.at += 2  # a label, which nothing refers to
        return _OpenModule(ModuleTree("main"), at, properties)

    def _module_end(self, module: _OpenModule, outer: _OpenModule) -> None:
        """Read the end of a module's text after its operations, and add the module to the enclosing module."""
        tree = module.tree
        if module.properties is not None:
            self.expect(")")
            attributes = self.dictionary() if self.words[self.at] == "{" else {}
            self.expect(":")
            self.function_type()
            tree.attributes = self._merged(module.properties, attributes)
            if "sym_name" in tree.attributes:
                tree.name = str(tree.attributes.pop("sym_name"))
                self._declare(outer, tree.name, module.at)
        self._skip_location()
        outer.tree.nested.append(tree)
        outer.count += 1

    def _declare(self, module: _OpenModule, name: str, at: int) -> None:
        """Add a symbol to a module.

        Raises:
            MlirDiagnosticError: the module has a symbol of this name.
        """
        if name in module.symbols:
            raise self.error(f"redefinition of symbol named '{name}'", at)
        module.symbols.add(name)

    def _module_operation(self, module: _OpenModule) -> None:
        at = self.at
        word = self.words[at]
        self.scope, self.value_types = {}, []
        module.count += 1
        self.at += 1
        if word == "func.func":
            reading: Any = self._function()
        elif word == '"func.func"':
            reading = self._generic_function()
        elif word == "sdy.mesh":
            self._mesh(module)
            return
        elif word == "ml_program.global":
            self._global(module)
            return
        elif word.startswith('"'):
            other = self._driven(self._generic_operation(self.string_at(at), [], at))
            if getattr(other, "name", "") == "sdy.mesh":
                name, mesh = str(other.attributes["sym_name"]), str(other.attributes["mesh"])
                self._declare(module, name, at)
                module.tree.meshes[name] = mesh.removeprefix("#sdy.mesh")
            return
        else:
            self.at = at
            raise self.error(f"expected an operation of a module, got {self.shown()}")
        function = self._driven(reading)
        self._declare(module, function.name, at)
        module.tree.functions[function.name] = function

    def string_at(self, at: int) -> str:
        """Move to the token `at`, and read it as a string."""
        self.at = at
        return self.string()

    def _mesh(self, module: _OpenModule) -> None:
        at = self.at
        name = self.symbol()
        self._declare(module, name, at)
        self.expect("=")
        module.tree.meshes[name] = self.bracketed_text()
        if self.words[self.at] == "{":
            self.dictionary()
        self._skip_location()

    def _global(self, module: _OpenModule) -> None:
        """Read a variable as torch-mlir declares it: `private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>`.

        The variable is omitted from the tree, because the operations that use such variables are not supported.
        """
        while self.words[self.at] in ("public", "private", "nested", "mutable"):
            self.at += 1
        at = self.at
        self._declare(module, self.symbol(), at)
        if self.accept("("):
            self.attribute()
            self.expect(")")
        self.expect(":")
        self.type()
        if self.words[self.at] == "{":
            self.dictionary()
        self._skip_location()

    def _alias(self) -> None:
        at = self.at
        name = self.words[at]
        self.at += 2
        if name in self.aliases or name in self.location_aliases:
            raise self.error(f"redefinition of attribute alias id '{name[1:]}'", at)
        if name.startswith("!"):
            self.aliases[name] = self.type()
        elif self.accept("loc"):
            self.expect("(")
            self.location_aliases[name] = self.location()
        else:
            self.aliases[name] = self.attribute()

    def _resources(self) -> None:
        """Read resources, such as `{-# dialect_resources: { builtin: { name: "0x.." } } #-}`."""
        self.expect("{-#")
        depth = 0
        while not self.accept("#-}"):
            word = self.words[self.at]
            if word == END:
                raise self.error("expected '#-}', got the end of the text")
            depth += (word == "{") - (word == "}")
            if (
                depth == 2
                and self.words[self.at + 1] == ":"
                and self.words[self.at + 2].startswith('"0x')
            ):
                name = word[1:-1] if word.startswith('"') else word
                self.resources[name] = self.words[self.at + 2][3:-1]
                self.at += 2
            self.at += 1

    def _resolve_resources(self) -> None:
        for operation in self.resource_operations:
            spec = operation.types[0]
            name = (
                operation.attributes["value"].removeprefix("dense_resource<").rpartition("> : ")[0]
            )
            if isinstance(spec, TensorSpec):
                try:
                    elements = resource_elements(self.resources, name, spec)
                except ValueError as error:
                    if isinstance(error, TenferroError):
                        raise
                    raise InvalidConfigError(f"dense_resource<{name}>: {error}") from None
                if elements is not None:
                    operation.attributes["value"] = elements

    def _resolve_locations(self) -> None:
        for operation, name, at in self.pending:
            location = self.aliased_location(name, at)
            if operation is not None:
                operation.location = location

    # ---- functions ---------------------------------------------------------------------------

    def _function(self) -> Waiting:
        at = self.at
        if self.words[at] in ("public", "private", "nested"):
            self.at += 1
        name = self.symbol()
        self.expect("(")
        names: list[str] = []
        types: list[Any] = []
        argument_attributes: list[dict[str, Any]] = []
        while not self.accept(")"):
            if types:
                self.expect(",")
            word = self.words[self.at]
            if word.startswith("%"):
                self.at += 1
                names.append(word)
                self.expect(":")
            types.append(self.type())
            argument_attributes.append(self.dictionary() if self.words[self.at] == "{" else {})
            self._skip_location()
        if names and len(names) != len(types):
            raise self.error("expected names for all arguments or for none", at)
        result_types, result_attributes = self._function_results()
        if self.accept("attributes"):
            self.dictionary()
        regions: tuple[Block, ...] = ()
        if self.accept("{"):
            if types and not names:
                raise self.error("a function with a body needs names for its arguments", at)
            regions = ((yield _Region(names, types, is_function=True)),)
        self._skip_location()
        attributes = {
            "sym_name": name,
            "function_type": FunctionType(tuple(types), result_types),
            "arg_attrs": argument_attributes,
            "res_attrs": result_attributes,
        }
        return self._checked_function(attributes, regions, at)

    def _checked_function(
        self, attributes: dict[str, Any], regions: tuple[Block, ...], at: int
    ) -> Function:
        operation = Operation("func.func", (), (), (), attributes, regions, "")
        try:
            return function_of(operation, self.value_types)
        except MlirDiagnosticError as error:
            raise self.error(error.diagnostics[0][0], at) from None

    def _function_results(self) -> tuple[tuple[Any, ...], list[dict[str, Any]]]:
        types: list[Any] = []
        attributes: list[dict[str, Any]] = []
        if not self.accept("->"):
            return (), attributes
        if not self.accept("("):
            return (self.type(),), [{}]
        while not self.accept(")"):
            if types:
                self.expect(",")
            types.append(self.type())
            attributes.append(self.dictionary() if self.words[self.at] == "{" else {})
        return tuple(types), attributes

    def _name(self) -> str:
        """Read the name of a value."""
        name = self.words[self.at]
        if not name.startswith("%"):
            raise self.error(f"expected SSA operand, got {self.shown()}")
        self.at += 1
        return name

    def _typed_names(self) -> tuple[list[str], list[Any]]:
        """Read the names and types of arguments up to a closing parenthesis, and skip their locations."""
        names: list[str] = []
        types: list[Any] = []
        while not self.accept(")"):
            if names:
                self.expect(",")
            names.append(self._name())
            self.expect(":")
            types.append(self.type())
            self._skip_location()
        return names, types

    def _generic_function(self) -> Waiting:
        at = self.at - 1
        self.expect("(")
        self.expect(")")
        properties = self._properties(keep_types=True)
        self.expect("(")
        self.expect("{")
        regions: tuple[Block, ...] = ()
        if not self.accept("}"):
            regions = ((yield _Region(is_function=True)),)
        self.expect(")")
        attributes = self._merged(
            properties, self._function_attributes() if self.words[self.at] == "{" else {}
        )
        self.expect(":")
        self.function_type()
        self._skip_location()
        return self._checked_function(attributes, regions, at)

    # ---- blocks ------------------------------------------------------------------------------

    def _driven(self, reading: Any) -> Any:
        """Run the generator of an operation, and the generators of operations in its regions; return the operation.

        A stack of frames replaces recursion.
        """
        stack: list[_Frame] = []
        waiting, answer = reading, None
        while True:
            try:
                region = waiting.send(answer)
            except StopIteration as done:
                answer = done.value
                if not stack:
                    return answer
                frame = stack[-1]
            else:
                frame = self._opened(region, waiting)
                stack.append(frame)
            nested = self._read_operations(frame)
            if nested is not None:
                waiting, answer = nested, None
                continue
            stack.pop()
            waiting, answer = frame.waiting, frame.block
            for name in frame.defined:
                del frame.scope[name]
            if stack:
                self.scope, self.is_function = stack[-1].scope, stack[-1].is_function
                self.defined = stack[-1].defined

    def _opened(self, region: _Region, waiting: Any) -> _Frame:
        """Return a frame for a region whose opening brace has been read, and read the label of its block."""
        scope = {} if region.is_isolated else self.scope
        self.defined = []
        names, types = list(region.names), list(region.types)
        self.scope = scope
        if self.words[self.at].startswith("^"):
            if names:
                raise self.error("invalid block name in a region with named arguments")
            self.at += 1
            if self.accept("("):
                names, types = self._typed_names()
            self.expect(":")
        numbers = [self._define(name, kind) for name, kind in zip(names, types, strict=True)]
        block = Block(tuple(numbers), tuple(types), [])
        self.is_function = region.is_function
        return _Frame(block, scope, self.defined, region.is_function, waiting)

    def _define(self, name: str, kind: Any) -> int:
        if not name.startswith("%") or "#" in name:
            raise self.error(f"expected a value's name, got '{name[:40]}'", self.at - 1)
        if name in self.scope:
            raise self.error(f"redefinition of SSA value '{name}'", self.at - 1)
        number = len(self.value_types)
        self.value_types.append(kind)
        self.scope[name] = (number,)
        self.defined.append(name)
        return number

    def _read_operations(self, frame: _Frame) -> Any:
        """Read operations up to the end of the block, and return None.

        At an operation that may have regions, return the generator that reads it.
        """
        operations = frame.block.operations
        words = self.words
        while True:
            at = self.at
            word = words[at]
            if word == "}":
                self.at += 1
                return None
            if word == END:
                raise self.error("expected '}', got the end of the text")
            if word.startswith("^"):
                raise UnsupportedError("a region of 2 blocks or more; StableHLO's have one")
            results: list[tuple[str, int]] = []
            if word[:1] == "%":
                results = self._result_names()
            at = self.at
            word = words[at]
            if word[:1] == '"':
                self.at += 1
                return self._appended(
                    operations, self._generic_operation(self.string_at(at), results, at)
                )
            self.at += 1
            name = self._full_name(word, at)
            if name in REGION_FORMS:
                return self._appended(operations, self._region_form(name, results, at))
            bracketed = STEPS.get(f"{name}(") if self.words[self.at] == "(" else None
            steps = bracketed or STEPS.get(name)
            if steps is None:
                raise self.error(f"custom op '{name}' is unknown, or has no pretty form", at)
            operations.append(self._pretty(name, steps, results, at))

    def _appended(self, operations: list[Operation], reading: Waiting) -> Waiting:
        operations.append((yield from reading))
        return None

    def _full_name(self, word: str, at: int) -> str:
        if "." in word:
            return word
        if self.is_function and word in ("return", "call"):
            return f"func.{word}"
        raise self.error(f"custom op '{word[:40]}' is unknown", at)

    def _result_names(self) -> list[tuple[str, int]]:
        """Read the names of an operation's results and the equals sign.

        Return the names, each with the number of results that it denotes: 2 for `%0:2`.
        """
        names: list[tuple[str, int]] = []
        while True:
            name = self.words[self.at]
            if name[:1] != "%" or "#" in name:
                raise self.error(f"expected a value's name, got {self.shown()}")
            self.at += 1
            count = 1
            if self.accept(":"):
                count = self.integer()
                if count < 1:
                    raise self.error("expected a positive number of results", self.at - 1)
                if count > len(self.words):
                    raise self.error("more results than the text has types", self.at - 1)
            names.append((name, count))
            if not self.accept(","):
                break
        self.expect("=")
        return names

    def _defined(
        self, results: list[tuple[str, int]], types: tuple[Any, ...], at: int
    ) -> tuple[int, ...]:
        """Assign numbers to an operation's results, and add their names to the scope."""
        first = len(self.value_types)
        self.value_types += types
        self._name_results(results, first, len(types), at)
        return tuple(range(first, first + len(types)))

    def _name_results(
        self, results: list[tuple[str, int]], first: int, count: int, at: int
    ) -> None:
        if not results:
            return
        if sum(number for _, number in results) != count:
            raise self.error(
                f"operation defines {count} results but was provided others to bind", at
            )
        for name, number in results:
            if name in self.scope:
                raise self.error(f"redefinition of SSA value '{name}'", at)
            self.scope[name] = range(first, first + number)
            self.defined.append(name)
            first += number

    def _skip_location(self) -> None:
        if self._is_at_location():
            self._trailing_location(None)

    def _located(self, operation: Operation, at: int) -> Operation:
        """Set the operation's location: the location that follows it in the text, or else its position in the text."""
        operation.location = (
            self._trailing_location(operation)
            if self._is_at_location()
            else self.tokens.location(at)
        )
        return operation

    def _is_at_location(self) -> bool:
        return self.words[self.at] == "loc" and self.words[self.at + 1] == "("

    def _trailing_location(self, operation: Operation | None) -> str:
        """Read a location and its closing parenthesis.

        A location that is only an alias may be defined later in the text. It is resolved at the end.
        """
        self.at += 2
        words, at = self.words, self.at
        if words[at][:1] != "#" or words[at + 1] != ")":
            return self.location()
        self.pending.append((operation, words[at], at))
        self.at += 2
        return ""

    # ---- generic form ------------------------------------------------------------------------

    def _properties(self, keep_types: bool = False) -> dict[str, Any]:
        """Read the properties of an operation in the generic form, `<{ .. }>`; return {} if there are none.

        Args:
            keep_types: whether the attribute `function_type` is read as a `FunctionType`, not as text.
        """
        if self.words[self.at] != "<" or self.words[self.at + 1] != "{":
            return {}
        self.at += 1
        properties = self._function_attributes() if keep_types else self.dictionary()
        self.expect(">")
        return properties

    def _function_attributes(self) -> dict[str, Any]:
        """Read the attributes of a function; the attribute `function_type` is read as a `FunctionType`, not as text."""
        self.expect("{")
        attributes: dict[str, Any] = {}
        while not self.accept("}"):
            if attributes:
                self.expect(",")
            name = self.string() if self.words[self.at].startswith('"') else self.keyword()
            if not self.accept("="):
                attributes[name] = True
                continue
            attributes[name] = self.function_type() if name == "function_type" else self.attribute()
        return attributes

    def _merged(self, properties: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
        if not attributes:
            return properties
        for name in attributes:
            if name in properties:
                raise self.error(f"attribute '{name[:40]}' occurs twice")
        return properties | attributes

    def _generic_operation(self, name: str, results: list[tuple[str, int]], at: int) -> Waiting:
        if _NAME.fullmatch(name) is None or name == "func.func" or name == "builtin.module":
            raise self.error(f"unexpected operation '{name[:40]}'", at)
        self.expect("(")
        operands = self.operands()
        self.expect(")")
        attributes = self._properties()
        regions: list[Block] = []
        # In the text, the types of the results follow the regions. So the results get their numbers here, without
        # types. Their names are added to the scope after the regions, because the regions cannot use the results.
        numbers = self.reserved([None] * sum(number for _, number in results))
        if self.accept("("):
            while True:
                self.expect("{")
                if not self.accept("}"):
                    regions.append((yield _Region(is_isolated=name in ISOLATED)))
                if not self.accept(","):
                    break
            self.expect(")")
        if self.words[self.at] == "{":
            attributes = self._merged(attributes, self.dictionary())
        self.expect(":")
        kind = self.function_type()
        self.check_operands(operands, kind.inputs, at)
        numbers = self._typed(results, numbers, kind.results, at)
        operation = Operation(
            name, tuple(operands), numbers, kind.results, attributes, tuple(regions), ""
        )
        return self._completed(operation, at)

    # ---- pretty forms ------------------------------------------------------------------------

    def _pretty(self, name: str, steps: Any, results: list[tuple[str, int]], at: int) -> Operation:
        operands: list[int] = []
        attributes: dict[str, Any] = {}
        types = self.followed(steps, operands, attributes)
        assert types is not None
        numbers = self._defined(results, types, at)
        operation = Operation(name, tuple(operands), numbers, types, attributes, (), "")
        return self._completed(operation, at)

    def _completed(self, operation: Operation, at: int) -> Operation:
        value = operation.attributes.get("value")
        if isinstance(value, str) and value.startswith("dense_resource<"):
            self.resource_operations.append(operation)
        return self._located(operation, at)

    def _region_form(self, name: str, results: list[tuple[str, int]], at: int) -> Waiting:
        match name:
            case "stablehlo.while":
                return self._while(results, at)
            case "stablehlo.reduce":
                return self._reduce(results, at)
            case "chlo.scan":
                return self._scan(results, at)
            case _:
                return self._manual_computation(results, at)

    def _scan(self, results: list[tuple[str, int]], at: int) -> Waiting:
        self.expect("(")
        inputs = self.operands()
        self.expect(")")
        self.expect("inits")
        self.expect("(")
        initial = self.operands()
        for word in (")", "dimension", "="):
            self.expect(word)
        attributes: dict[str, Any] = {"dimension": self.integer()}
        if self.accept("attributes"):
            attributes = self._merged(attributes, self.dictionary())
        numbers = self.reserved([None] * sum(count for _, count in results))
        self.expect("{")
        body = yield _Region(is_isolated=True)
        self.expect(":")
        kind = self.function_type()
        self.check_operands([*inputs, *initial], kind.inputs, at)
        attributes["operandSegmentSizes"] = len(inputs), len(initial)
        attributes["resultSegmentSizes"] = len(kind.results) - len(initial), len(initial)
        numbers = self._typed(results, numbers, kind.results, at)
        operands = (*inputs, *initial)
        operation = Operation("chlo.scan", operands, numbers, kind.results, attributes, (body,), "")
        return self._completed(operation, at)

    def _manual_computation(self, results: list[tuple[str, int]], at: int) -> Waiting:
        self.expect("(")
        operands = self.operands()
        self.expect(")")
        attributes: dict[str, Any] = {}
        for name in ("in_shardings", "out_shardings"):
            self.expect(name)
            self.expect("=")
            attributes[name] = f"#sdy.sharding_per_value<{self.bracketed_text()}>"
        self.expect("manual_axes")
        self.expect("=")
        attributes["manual_axes"] = f"#sdy<manual_axes{self.bracketed_text()}>"
        self.expect("(")
        names, types = self._typed_names()
        if self.words[self.at] == "attributes":
            self.at += 1
            attributes = self._merged(attributes, self.dictionary())
        numbers = self.reserved([None] * sum(count for _, count in results))
        self.expect("{")
        body = yield _Region(names, types)
        self.expect(":")
        kind = self.function_type()
        self.check_operands(operands, kind.inputs, at)
        numbers = self._typed(results, numbers, kind.results, at)
        name = "sdy.manual_computation"
        operation = Operation(name, tuple(operands), numbers, kind.results, attributes, (body,), "")
        return self._completed(operation, at)

    def _typed(
        self,
        results: list[tuple[str, int]],
        numbers: tuple[int, ...],
        types: tuple[Any, ...],
        at: int,
    ) -> tuple[int, ...]:
        """Set the types and names of results whose numbers were reserved before the regions were read."""
        if not results:
            return self.reserved(types)
        self._name_results(results, numbers[0], len(types), at)
        self.value_types[numbers[0] : numbers[0] + len(types)] = types
        return numbers

    def _while(self, results: list[tuple[str, int]], at: int) -> Waiting:
        names: list[str] = []
        operands: list[int] = []
        self.expect("(")
        while not self.accept(")"):
            if names:
                self.expect(",")
            names.append(self._name())
            self.expect("=")
            operands.append(self.operand())
        types: tuple[Any, ...] = ()
        if names:
            self.expect(":")
            types = self.type_list()
        self.check_operands(operands, types, at)
        attributes = self.dictionary() if self.accept("attributes") else {}
        numbers = self.reserved(types)
        self.expect("cond")
        self.expect("{")
        condition = yield _Region(names, types)
        self.expect("do")
        self.expect("{")
        body = yield _Region(names, types)
        self._name_results(results, numbers[0] if numbers else 0, len(numbers), at)
        operation = Operation(
            "stablehlo.while", tuple(operands), numbers, types, attributes, (condition, body), ""
        )
        return self._completed(operation, at)

    def reserved(self, types: Sequence[Any]) -> tuple[int, ...]:
        first = len(self.value_types)
        self.value_types += types
        return tuple(range(first, first + len(types)))

    def _reduce(self, results: list[tuple[str, int]], at: int) -> Waiting:
        inputs: list[int] = []
        initial: list[int] = []
        while True:
            self.expect("(")
            inputs.append(self.operand())
            self.expect("init")
            self.expect(":")
            initial.append(self.operand())
            self.expect(")")
            if not self.accept(","):
                break
        inner = ""
        inner_at = self.at
        if self.accept("applies"):
            inner_at = self.at
            inner = self.keyword()
        for word in ("across", "dimensions", "="):
            self.expect(word)
        attributes: dict[str, Any] = {"dimensions": self.integers()}
        if self.words[self.at] == "{":
            attributes = self._merged(attributes, self.dictionary())
        self.expect(":")
        kind = self.function_type()
        self.check_operands([*inputs, *initial], kind.inputs, at)
        numbers = self.reserved(kind.results)
        if inner:
            region = self._applied(inner, kind, inner_at, at)
        else:
            region = yield from self._reducer(len(inputs))
        self._name_results(results, numbers[0] if numbers else 0, len(numbers), at)
        operation = Operation(
            "stablehlo.reduce",
            (*inputs, *initial),
            numbers,
            kind.results,
            attributes,
            (region,),
            "",
        )
        is_pending = len(self.pending)
        self._completed(
            operation, at + 1
        )  # in this form MLIR's location is the parenthesis after the name
        if inner:
            for item in region.operations:
                item.location = operation.location
            if len(self.pending) > is_pending:
                _, name, place = self.pending[-1]
                self.pending += [(item, name, place) for item in region.operations]
        return operation

    def _reducer(self, count: int) -> Waiting:
        self.expect("reducer")
        left: list[tuple[str, Any]] = []
        right: list[tuple[str, Any]] = []
        for _ in range(count):
            self.expect("(")
            for side in (left, right):
                if side is right:
                    self.expect(",")
                name = self._name()
                self.expect(":")
                side.append((name, self.type()))
                self._skip_location()
            self.expect(")")
        self.expect("{")
        pairs = [*left, *right]
        return (yield _Region([name for name, _ in pairs], [kind for _, kind in pairs]))

    def _applied(self, name: str, kind: FunctionType, name_at: int, at: int) -> Block:
        """Build the region of `stablehlo.reduce(..) applies name`: a block that applies `name` to two elements."""
        if name not in _APPLIED:
            raise self.error(f"invalid operation for a reduction: '{name[:40]}'", name_at)
        if len(kind.inputs) != 2:
            raise self.error("expected one input and one initial value", at)
        element = kind.inputs[1]  # a `ForeignType` if it is quantised
        element = TensorSpec.of((), element.dtype) if isinstance(element, TensorSpec) else element
        left, right, result = self.reserved((element, element, element))
        first = Operation(name, (left, right), (result,), (element,), {}, (), "")
        last = Operation("stablehlo.return", (result,), (), (), {}, (), "")
        return Block((left, right), (element, element), [first, last])


_APPLIED = frozenset(
    f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
)
