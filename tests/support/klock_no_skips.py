# SPDX-License-Identifier: MIT
"""pytest plugin: with CI=true a skipped test fails the session, as nobody looks at skips there."""

import os

_skipped = []


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report):
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session):
    if _skipped and os.environ.get("CI") == "true":
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    if _skipped and os.environ.get("CI") == "true":
        terminalreporter.write_line("skipped tests are failures with CI=true: " + ", ".join(_skipped))
