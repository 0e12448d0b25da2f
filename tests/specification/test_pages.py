"""The pages of docs/specification must agree with the statements in the tests."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.specification.statements import DIFFERS, WORKS, Chapter

ROOT = Path(__file__).resolve().parent.parent.parent


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem + "_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = loaded(ROOT / "tools" / "specification.py")
CHAPTERS: list[Chapter] = WRITER.chapters()


def test_the_pages_are_up_to_date() -> None:
    files = {path.name: path.read_text() for path in WRITER.FOLDER.glob("*.md")}
    assert files == WRITER.pages(), "run `make specification`"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_statements_are_sentences(chapter: Chapter) -> None:
    for statement in chapter.statements.values():
        where = f"{chapter.name}.{statement.number}"
        assert statement.text[0].isupper() or statement.text[0] == "`", where
        assert statement.text.endswith("."), where
        assert ". " not in statement.text, where
        assert bool(statement.because) is (statement.verdict != WORKS), where
        assert not statement.because.endswith("."), where
    texts = Counter(statement.text for statement in chapter.statements.values())
    assert texts.most_common(1)[0][1] == 1


def test_few_statements_differ() -> None:
    verdicts = Counter(s.verdict for chapter in CHAPTERS for s in chapter.statements.values())
    assert verdicts[DIFFERS] <= 70
    assert set(verdicts) == {WORKS, DIFFERS}


def test_a_statement_has_one_number() -> None:
    chapter = Chapter("x", "X", "")
    chapter.works(1, "One.")(lambda: None)
    with pytest.raises(AssertionError, match=r"x\.1 is stated twice"):
        chapter.works(1, "Another.")(lambda: None)
