"""Columns: tables that map each op class (card) to an entry (cell). The import fails if an op has no entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from tenferro.errors import MissingCellError
from tenferro.ops.op import StdTensorOp

__all__ = ["Column", "require_listed"]

Cell = TypeVar("Cell")


class Column(Mapping[type[StdTensorOp], Cell], Generic[Cell]):
    """Table of one layer, such as kernels: a mapping from every op class (card) to the entry (cell) for the op.

    Args:
        name: the name of the column in error messages.
        path: the folder with the files of the column, one per family of ops, or the only file of the column.

    Attributes:
        cells: a view of the dict, which can be looked up faster than the mapping.

    >>> class Left(StdTensorOp): ...
    >>> class Right(StdTensorOp): ...
    >>> Column("kernel", "tenferro/exec/kernels", [Left, Right], {Left: "go left"})
    Traceback (most recent call last):
        ...
    tenferro.errors.MissingCellError: column kernel has no cell for Right; write it in tenferro/exec/kernels/column.py.
    `python tools/cells.py` lists what is missing in every column

    Raises:
        MissingCellError: an op has no cell or two cells, or a cell belongs to no op.
    """

    __slots__ = ("_cells", "cells", "name")

    def __init__(
        self,
        name: str,
        path: str,
        vocabulary: Iterable[type[StdTensorOp]],
        *families: Mapping[type[StdTensorOp], Cell],
    ) -> None:
        self.name = name
        self._cells: dict[type[StdTensorOp], Cell] = {}
        self.cells: Mapping[type[StdTensorOp], Cell] = MappingProxyType(self._cells)
        for family in families:
            twice = self._cells.keys() & family.keys()
            if twice:
                raise MissingCellError(f"column {name} has two cells for {_names(twice)}")
            self._cells.update(family)
        vocabulary = set(vocabulary)
        if missing := vocabulary - self._cells.keys():
            files = sorted({_file(path, card) for card in missing})
            raise MissingCellError(
                f"column {name} has no cell for {_names(missing)}; write it in {', '.join(files)}. "
                "`python tools/cells.py` lists what is missing in every column"
            )
        if foreign := self._cells.keys() - vocabulary:
            raise MissingCellError(
                f"column {name} has a cell for {_names(foreign)}, which is not an op"
            )

    def __getitem__(self, card: type[StdTensorOp]) -> Cell:
        return self._cells[card]

    def cell(self, op: StdTensorOp, default: Cell | None = None) -> Cell:
        """Return the cell of an op.

        A planning step may introduce an op that is not in the table. Such an op has a class attribute `cells`, a dict
        of its cells by the name of the column.

        Args:
            default: the result for such an op if its `cells` has no entry for this column.

        Raises:
            MissingCellError: the op has no cell.
        """
        cell = self._cells.get(type(op))
        if cell is None:
            cell = getattr(op, "cells", {}).get(self.name, default)
        if cell is None:
            raise MissingCellError(f"column {self.name} has no cell for {_names([type(op)])}")
        return cell

    def __iter__(self) -> Iterator[type[StdTensorOp]]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def _names(cards: Iterable[type[StdTensorOp]]) -> str:
    return ", ".join(sorted(card.__name__ for card in cards))


def _file(path: str, card: type[StdTensorOp]) -> str:
    """Return the path of the file that contains, or should contain, the cell of an op."""
    return path if path.endswith(".py") else f"{path}/{card.__module__.split('.')[-1]}.py"


def require_listed(
    cards: Iterable[type[StdTensorOp]], vocabulary: Iterable[type[StdTensorOp]]
) -> None:
    """Require that `vocabulary` contains every op class in `cards`. A class with subclasses is a base class, not an op.

    Raises:
        MissingCellError: an op class is not listed in the `CARDS` of its file.
    """
    unlisted = {card for card in cards if not card.__subclasses__()} - set(vocabulary)
    if unlisted:
        files = sorted({f"{card.__module__.replace('.', '/')}.py" for card in unlisted})
        raise MissingCellError(
            f"{_names(unlisted)} is not an op yet; list it in CARDS of {', '.join(files)}"
        )
