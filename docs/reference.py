"""Writes the site's pages about the code: the op catalogue and the reference of every public name."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

MODULES = (
    "tenferro",
    "tenferro.lax",
    "tenferro.lax.linalg",
    "tenferro.linalg",
    "tenferro.nn",
    "tenferro.nn.initializers",
    "tenferro.special",
    "tenferro.signal",
    "tenferro.stats",
    "tenferro.fft",
    "tenferro.tree",
    "tenferro.optim",
    "tenferro.optimize",
    "tenferro.extension",
    "tenferro.errors",
    "tenferro.program",
    "lowering",
    "xla_peer",
    "xla_peer.parity",
    "xla_peer.fuzz",
    "xla_peer.onnx",
    "xla_peer.opinions",
    "xla_peer.watch",
    "xla_peer.hall",
    "tenferro.pytest_plugin",
)
NAMES = {
    "tnf": "NumPy and `jax.numpy`",
    "tnf.lax": "`jax.lax`",
    "tnf.lax.linalg": "`jax.lax.linalg`",
    "tnf.linalg": "`numpy.linalg`, `scipy.linalg` and `jax.scipy.linalg`",
    "tnf.nn": "`jax.nn`",
    "tnf.signal": "`scipy.signal` and `jax.scipy.signal`",
}
"""The namespaces on the page of names, with the libraries whose names they have."""
ROOT = Path(__file__).parent.parent
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Source|Law):(.*)$")
FACT = re.compile(r"^(Shapes|Dtypes|Identity|AD|Lowers|Errors|Source):\s*(.*)$")
FACTS = ("Shapes", "Dtypes", "Identity", "AD", "Lowers", "Errors", "Source")
"""The facts of a card, in their order."""
FAMILIES = {
    "source": "Where values come from",
    "elementwise": "Element by element, exact",
    "analytic": "Element by element, transcendental",
    "structural": "Moving elements",
    "reduction": "Folding axes",
    "contraction": "Products over axes",
    "control": "Choices and loops",
    "indexing": "By indices",
    "dynamic": "Extents that data decide",
}


def write(folder: Path) -> None:
    """Write all pages into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.md").write_text(module_page(name), "utf-8")
    (folder / "names.md").write_text(names_page(), "utf-8")
    for family, title in FAMILIES.items():
        (folder / f"ops_{family}.md").write_text(family_page(family, title), "utf-8")


def module_named(name: str) -> Any:
    """Return the module; some are attributes of a package and defined elsewhere."""
    package, _, attribute = name.rpartition(".")
    parent = importlib.import_module(package) if package else None
    return getattr(parent, attribute, None) or importlib.import_module(name)


def module_page(name: str) -> str:
    """Return a page of every public name of a module."""
    module = module_named(name)
    lines = [f"# {name}", "", markdown(inspect.getdoc(module) or ""), ""]
    for public in sorted(module.__all__, key=str.lower):
        item = getattr(module, public)
        if inspect.ismodule(item):
            lines += [f"## {public}", "", f"The module `{item.__name__}`.", ""]
            continue
        lines += entry(f"{name}.{public}", item, "##")
        if inspect.isclass(item):
            for member, value in sorted(vars(item).items()):
                lines += member_entry(member, value)
    return "\n".join(lines)


def names_page() -> str:
    """Return the names of the namespaces, and names of NumPy, SciPy and JAX without a counterpart, with replacements."""
    from tenferro.counterparts import ABSENT, COUNTERPARTS

    lines = ["# Names", ""]
    lines += [
        "For whoever has a program in the names of NumPy, SciPy or JAX, and looks for one here.",
        "",
    ]
    for shown, theirs in NAMES.items():
        module = module_named(shown.replace("tnf", "tenferro"))
        here = [name for name in dir(module) if not name.startswith("_")]
        lines += (
            [f"## {shown}", "", f"For names of {theirs}.", "", "### Here", ""]
            if shown != "tnf"
            else ["## Here", ""]
        )
        lines += [", ".join(f"`{name}`" for name in here), ""]
        level = "##" if shown == "tnf" else "###"
        table = COUNTERPARTS.get(shown, {})
        rows = [f"| `{name}` | {table[name]} |" for name in sorted(table) if name not in here]
        if rows:
            lines += [
                f"{level} Under another name",
                "",
                "| name | here |",
                "| --- | --- |",
                *rows,
                "",
            ]
        absent = ABSENT.get(shown, {})
        rows = [f"| `{name}` | {absent[name]} |" for name in sorted(absent)]
        if rows:
            lines += [
                f"{level} Without a meaning for tensors",
                "",
                "| name | reason |",
                "| --- | --- |",
                *rows,
                "",
            ]
    return "\n".join(lines)


def entry(name: str, documented: Any, level: str) -> list[str]:
    """Return a heading, the signature and the docstring."""
    title = name.rpartition(".")[2]
    lines = [f"{level} {title}", ""]
    if callable(documented):
        lines += ["```text", signature(name, documented), "```", ""]
    own = documented if callable(documented) or inspect.isclass(documented) else type(documented)
    members = () if inspect.isclass(documented) else getattr(documented, "__all__", ())
    calls = [signature(f"{name}.{member}", getattr(documented, member)) for member in members]
    lines += ["```text", *calls, "```", ""] if calls else []
    text = (
        inspect.getdoc(documented)
        if callable(documented) or calls
        else f"A value of type `{own.__name__}`."
    )
    return [*lines, markdown(text or ""), ""]


def member_entry(name: str, value: Any) -> list[str]:
    """Return the entry of a public method or property."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if name.startswith("_") or not inspect.isfunction(value) or not value.__doc__:
        return []
    return [
        "```text",
        signature(name, value),
        "```",
        "",
        ":::{container} member",
        "",
        markdown(inspect.getdoc(value) or ""),
        "",
        ":::",
        "",
    ]


def signature(name: str, documented: Any) -> str:
    """Return the signature as a call is written."""
    try:
        parts = inspect.signature(documented)
    except (TypeError, ValueError):
        return name
    shown = [
        str(p.replace(annotation=p.empty)) for p in parts.parameters.values() if p.name != "self"
    ]
    text = f"{name}({', '.join(re.sub(r' at 0x[0-9a-f]+', '', part) for part in shown)})"
    return "\n".join(textwrap.wrap(text, 96, subsequent_indent="    "))


def family_page(family: str, title: str) -> str:
    """Return a page of the cards of a family, in their order."""
    module = importlib.import_module(f"tenferro.ops.{family}")
    lines = [f"# {title}", "", markdown(inspect.getdoc(module) or ""), ""]
    for card in module.CARDS:
        lines += [f"## {card.__name__}", "", markdown(card_text(card)), ""]
    return "\n".join(lines)


def card_text(card: Any) -> str:
    """Return a card's docstring, completed by its base classes and the emitters.

    Raises:
        ValueError: the card does not state its lowering, and the text has several operations.
    """
    text = inspect.getdoc(card) or ""
    stated = facts_in(text)
    inherited: dict[str, str] = {}
    for base in card.__mro__[1:-2]:  # without the class of all ops
        inherited = facts_in(inspect.getdoc(base) or "") | inherited
    fields = inherited | stated
    if "Lowers" not in fields:
        fields["Lowers"] = lowered(card)
    fields.setdefault("Source", source_of(card, fields["Lowers"]))
    added = [f"{name}:  {fields[name]}" for name in fields if name not in stated]
    return "\n".join([text, "", *added])  # because a blank line ends an example


def facts_in(text: str) -> dict[str, str]:
    """Return the first line of each fact of a docstring."""
    matches = [match for line in text.splitlines() if (match := FACT.match(line))]
    return {match[1]: match[2] for match in matches}


def lowered(card: Any, dtype: str = "f64") -> str:
    """Return the lowered text of a sample of the op, of this dtype if there is one."""
    from lowering import lower_to_stablehlo  # because a page without cards needs no samples
    from tenferro.graph import GraphBuilder
    from tenferro.program import GraphProgram
    from tests.samples import SAMPLES

    samples = SAMPLES[card]
    sample = next((sample for sample in samples if dtype in sample.label), samples[0])
    builder = GraphBuilder()
    outputs = builder.apply(sample.op, *[builder.input(x.shape, x.dtype) for x in sample.inputs])
    program = GraphProgram.from_graph(builder.graph, list(outputs))
    text = lower_to_stablehlo(program).plain_text
    main = text.partition("func.func public @main")[2].partition("func.func private")[0]
    calls = re.findall(r"call @([a-z0-9]+(?:_inv)?)_", main)
    if calls:
        return f"StableHLO's own expansion of chlo.{calls[0]}, as a private function"
    operations = set(re.findall(r"stablehlo\.(\w+)", main)) - {"constant"}
    if len(operations) != 1:
        raise ValueError(
            f"{card.__name__} is lowered to {operations}: its card says how, in Lowers:"
        )
    return f"stablehlo.{operations.pop()}, one to one"


def source_of(card: Any, lowers: str) -> str:
    """Return the documents that define an op, by the first operation that it is lowered to."""
    own = "docs/specification/primitives.md"
    is_ours = re.search(rf"`{card.__name__}\b", (ROOT / own).read_text("utf-8"))
    name = re.search(r"stablehlo\.(\w+)", lowers)
    theirs = f"StableHLO spec #{name[1]}" if name else "CHLO dialect" if "chlo." in lowers else ""
    return ", ".join(filter(None, (own if is_ours else "", theirs)))


def markdown(docstring: str) -> str:
    """Convert a docstring to MyST: sections to lists, facts of cards to a table, examples to code."""
    blocks: list[str] = []
    facts: list[list[str]] = []
    lines = docstring.splitlines()
    while lines:
        line = lines.pop(0)
        section, fact = SECTION.match(line), FACT.match(line)
        if line.startswith(">>>"):
            code = [line]
            while lines and lines[0].strip():
                code.append(lines.pop(0))
            blocks += ["", "```pycon", *code, "```", ""]
        elif fact and (fact[1] != "Source" or facts):
            value = fact[2]
            while lines and lines[0].startswith("      "):
                value += " " + lines.pop(0).strip()
            facts.append([fact[1], value])
        elif section and not section[2]:
            inner: list[str] = []
            while lines and (not lines[0].strip() or lines[0].startswith("    ")):
                inner.append(lines.pop(0)[4:])
            blocks += ["", f"**{section[1]}**", "", *items(inner), ""]
        elif line.startswith("    "):
            code = [line[4:]]
            while lines and (
                lines[0].startswith("    ")
                or (not lines[0].strip() and lines[1:] and lines[1].startswith("    "))
            ):
                code.append(lines.pop(0)[4:])
            blocks += ["", "```text", *code, "```", ""]
        else:
            blocks.append(escaped(line))
    if facts:
        facts.sort(key=lambda fact: FACTS.index(fact[0]))
        blocks += ["", "| | |", "| --- | --- |"]
        blocks += [
            f"| {name} | {escaped(value).replace('|', chr(92) + '|')} |" for name, value in facts
        ]
    return "\n".join(blocks).strip()


def items(lines: list[str]) -> list[str]:
    """Convert `name: meaning` and its continuation lines to a list; other text is unchanged."""
    entries: list[str] = []
    for line in lines:
        if line.startswith("    ") and entries:
            entries[-1] += " " + escaped(line.strip())
        elif line.strip():
            name, colon, meaning = line.partition(":")
            named = colon and len(name) < 60 and not name.startswith(">>>")
            entries.append(f"- `{name}`: {escaped(meaning.strip())}" if named else escaped(line))
    return entries


def escaped(text: str) -> str:
    """Escape the signs of MyST outside of backticks."""
    parts = text.split("`")
    return "`".join(
        re.sub(r"([*_<>\[\]{}$])", r"\\\1", part) if place % 2 == 0 else part
        for place, part in enumerate(parts)
    )
