"""Columns: tables that map each op class (card) to an entry (cell); the import fails unless every op has an entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from tenferro.errors import MissingCellError
from tenferro.ops.op import StdTensorOp

__all__ = ["Column", "require_listed"]

Cell = TypeVar("Cell")


class Column(Mapping[type[StdTensorOp], Cell], Generic[Cell]):
    """The table of one layer, such as kernels: a mapping from every op class (card) to its entry (cell).

    Args:
        name: the name of the column in messages.
        path: the folder with the column's files, one per family of ops, or its only file.

    Attributes:
        cells: a view of the dict, which is faster than the mapping in loops over many ops.

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

        An op that a planning step introduces is not in the table. It has its cells in its class attribute `cells`, by
        the name of the column.

        Args:
            default: the cell of such an op if its `cells` lacks this column.

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
    """Return the file that contains, or should contain, the cell of an op."""
    return path if path.endswith(".py") else f"{path}/{card.__module__.split('.')[-1]}.py"


def require_listed(
    cards: Iterable[type[StdTensorOp]], vocabulary: Iterable[type[StdTensorOp]]
) -> None:
    """Require that every op class in `cards` is in the vocabulary; a class with subclasses is no op.

    Raises:
        MissingCellError: an op is not listed in `CARDS`.
    """
    unlisted = {card for card in cards if not card.__subclasses__()} - set(vocabulary)
    if unlisted:
        files = sorted({f"{card.__module__.replace('.', '/')}.py" for card in unlisted})
        raise MissingCellError(
            f"{_names(unlisted)} is not an op yet; list it in CARDS of {', '.join(files)}"
        )
