"""Runs the tests of a file and ends with "N passed, M failed", as tests/run counts them."""

import unittest


class Result(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.bad = set()

    def addFailure(self, test, error):
        self.bad.add(test.id())
        super().addFailure(test, error)

    def addError(self, test, error):
        self.bad.add(test.id())
        super().addError(test, error)

    def addSubTest(self, test, subtest, error):
        if error:
            self.bad.add(test.id())
        super().addSubTest(test, subtest, error)


def main():
    program = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=Result))
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped 1: {reason} ({test.id()})")
    passed = result.testsRun - len(result.bad) - len(result.skipped)
    print(f"{passed} passed, {len(result.bad)} failed", flush=True)
    raise SystemExit(0 if passed > 0 and not result.bad else 1)
