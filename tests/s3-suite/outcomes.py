"""A pytest plugin: writes what became of each test as a line into the file that OUTCOMES names."""

import os


class Outcomes:
    def __init__(self, path):
        self.path = path
        self.tests = {}

    def pytest_runtest_logreport(self, report):
        test = report.nodeid.rsplit("/", 1)[-1]
        if report.when == "call" or report.outcome != "passed":
            # A teardown that fails takes the pass away.
            if self.tests.get(test) != "failed":
                self.tests[test] = report.outcome

    def pytest_sessionfinish(self):
        with open(self.path, "w", encoding="utf-8") as out:
            for test, outcome in sorted(self.tests.items()):
                out.write(f"{outcome} {test}\n")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        # What runs tests side by side hears of all of them in the process that started the others.
        return
    config.pluginmanager.register(Outcomes(os.environ["OUTCOMES"]))
