"""Record of the checks that tests have passed (the ledger). docs/coverage.md is written from its file.

A test that checks samples requests the fixture `ledger`, and reports each sample that passed:

    def test_kernel(sample, ledger):
        ...
        ledger.passed("native", sample)

The reports of a test count only if the whole test passes. `pytest --ledger FILE` runs the tests with this fixture and
writes the file; `make coverage` also includes the sweep.
"""
