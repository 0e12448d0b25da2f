"""Record of the tests, as a file from which docs/coverage.md is written.

A test that checks samples asks for the fixture `ledger`, and tells it of each that passed:

    def test_kernel(sample, ledger):
        ...
        ledger.passed("native", sample)

That counts once the whole test has passed. `pytest --ledger FILE` runs those tests and no others, and
writes the file; `make coverage` does so with the sweep.
"""
