"""Record of the tests, as a file from which docs/coverage.md is written.

A test that checks samples requests the fixture `ledger`, and reports each passed sample to it:

    def test_kernel(sample, ledger):
        ...
        ledger.passed("native", sample)

The reports count if the whole test passes. `pytest --ledger FILE` runs only such tests and writes the file; `make
coverage` does so with the sweep.
"""
