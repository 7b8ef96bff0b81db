#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures klock beside flock(1), its neighbours and hand-written floors; see README.md."""
import argparse
import json
import os
import pathlib
import resource
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import costs  # noqa: E402
import growth  # noqa: E402
import readme  # noqa: E402
import recovery  # noqa: E402
import report  # noqa: E402
import standing  # noqa: E402
import stores  # noqa: E402
import turns  # noqa: E402
from tools import Bench  # noqa: E402

MEASURES = {"wrap": costs.wrap, "modes": costs.modes, "shell": costs.shell, "handover": turns.handover,
            "contend": turns.contend, "idle": standing.idle, "recovery": recovery.recovery, "growth": growth.growth,
            "list": stores.list_, "history": stores.history}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--no-peers", action="store_true", help="without etcdctl, redis-cli and redis-py")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--readme", metavar="FILE", nargs="?", const="-",
                        help="measure what the table in README.md tells, and print it, or put it into FILE")
    parser.add_argument("--klock", default=os.environ.get("KLOCK", HERE / "../../build/release/klock"))
    options = parser.parse_args()
    options.klock = os.path.abspath(options.klock)
    if options.readme and (options.measures or options.no_peers):
        parser.error("--readme chooses what is measured")
    if not os.access(options.klock, os.X_OK):
        parser.error(f"no klock at {options.klock}: build the preset release, or use --klock")
    return options


def main():
    options = parse()
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        most = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (most, most))
    figures = report.Report()
    with tempfile.TemporaryDirectory(prefix="klock-bench-") as directory:
        bench = Bench(options.klock, options.quick, directory, with_peers=not options.no_peers)
        try:
            for measure in options.measures or (readme.MEASURES if options.readme else MEASURES):
                MEASURES[measure](bench, figures)
        finally:
            bench.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures.results, indent=1) + "\n", encoding="utf-8")
    if options.readme == "-":
        print("\n" + readme.text(figures.results))
    elif options.readme:
        readme.put_into(pathlib.Path(options.readme), figures.results)


if __name__ == "__main__":
    sys.exit(main())
