"""Write StableHLO's expansions of CHLO ops as templates: `python tools/chlo_templates.py`.

A template is the body of a function of one or two tensors, in which the word SHAPE stands for the tensors' extents.
"""

from __future__ import annotations

from pathlib import Path

from lowering import mlir_bindings

FOLDER = Path(__file__).resolve().parent.parent / "lowering" / "emit" / "chlo"
COMPLEX_TOO = ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
REAL_ONLY = ("erf", "erfc", "erf_inv", "lgamma", "digamma")
READ_ALONE = {"bessel_i1e": 1, "polygamma": 2, "zeta": 2}
"""Operations of real numbers that are imported from StableHLO but never written, each with its number of operands."""
KERNEL = "_asin_acos_kernel"
"""Operation of complex numbers that is imported from StableHLO but never written."""
HEADER = "// Expansion of chlo.{name} by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).\n"


def template(name: str, element: str, count: int = 1) -> str:
    """Return MLIR's expansion of the op `name` for an element type, as a template.

    `count` is the number of operands.
    """
    kind = f"tensor<4x{element}>"
    names = [f"%arg{i}" for i in range(count)]
    takes = ", ".join(f"{x}: {kind}" for x in names)
    types = ", ".join([kind] * count)
    text = mlir_bindings.legalize_chlo(
        f"func.func @f({takes}) -> {kind} {{\n"
        f'  %0 = "chlo.{name}"({", ".join(names)}) : ({types}) -> {kind}\n  return %0 : {kind}\n}}'
    )
    body = text[text.index("{", text.index("@f(")) + 1 : text.rindex("}", 0, text.rindex("}"))]
    lines = [line.strip() for line in body.strip().splitlines()]
    return HEADER.format(name=name) + "\n".join(lines).replace("tensor<4x", "tensor<SHAPE") + "\n"


def all_templates() -> dict[str, str]:
    """Return the content of every template. The keys are the names of the files."""
    wanted = [(name, e) for name in (*COMPLEX_TOO, *REAL_ONLY) for e in ("f32", "f64")]
    wanted += [
        (name, e) for name in (*COMPLEX_TOO, KERNEL) for e in ("complex<f32>", "complex<f64>")
    ]
    wanted += [(name, e) for name in READ_ALONE for e in ("f32", "f64")]
    return {
        f"{name}_{e.strip('>').replace('<', '_')}.mlir": template(name, e, READ_ALONE.get(name, 1))
        for name, e in wanted
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, content in all_templates().items():
        (FOLDER / file).write_text(content)
    print(f"{len(all_templates())} templates in {FOLDER}")
