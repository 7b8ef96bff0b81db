# SPDX-License-Identifier: MIT
"""Includes in src/ point down only, and each library is known in one room only.

--self-test: a bad include of each kind is found."""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"

# What each room may include besides itself.
BELOW = {
    "util": [],
    "config": ["util"],
    "lease": ["util"],
    "supervise": ["util"],
    "output": ["lease", "util"],
    "journal": ["lease", "util"],
    "store/local": ["lease", "util"],
    "store/redis": ["lease", "config", "util"],
    "store/redlock": ["store/redis", "lease", "config", "util"],
    "store": ["store/local", "store/redis", "store/redlock", "lease", "config", "util"],
    "commands": ["store", "supervise", "output", "journal", "lease", "config", "util"],
    "cli": ["commands", "output", "config", "util"],
    "": ["cli", "util"],
}

# Library headers and the only rooms, or files, that may include them.
ONLY_IN = {
    r"CLI/": ["cli"],
    r"hiredis/|hiredis\.h|read\.h": ["store/redis"],
    r"openssl/": ["store/redis/tls_context.cpp", "store/redis/tls_fault.cpp", "store/redis/tls_stream.cpp"],
    r"toml\+\+/": ["config/config_file.cpp"],
    r"nlohmann/": [
        "output/event_text.cpp",
        "output/findings.cpp",
        "output/state_json.cpp",
        "output/statistics_json.cpp",
        "journal/outcome_file.cpp",
        "lease/event_json.cpp",
        "lease/stored_json.hpp",
        "lease/stored_json.cpp",
        "store/local/markers.cpp",
        "store/local/records.cpp",
        "store/redis/record.cpp",
    ],
    r"iostream": [],
    r"regex": [],
}


def room_of(path):
    """ "store/redis/reply.hpp" -> "store/redis"; "main.cpp" -> "". """
    parts = path.split("/")[:-1]
    return "/".join(parts)


def faults(path, text):
    """What is wrong with the includes of src/PATH."""
    room = room_of(path)
    if room not in BELOW:
        return [f"{path}: unknown room '{room}'"]
    found = []
    for kind, header in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.M):
        if kind == '"':
            target = room_of(header)
            # generated headers (cli/version.hpp and the like) follow the same rule
            if target != room and target not in BELOW[room]:
                found.append(f"{path}: {header}: '{room or 'main'}' may not include '{target}'")
            continue
        for pattern, places in ONLY_IN.items():
            if re.match(pattern, header) and room not in places and path not in places:
                found.append(f"{path}: <{header}> belongs in {', '.join(places) or 'no file'}")
    return found


def check_tree():
    found = []
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".hpp", ".cpp"))
    assert files, f"no sources under {SOURCE}"
    for path in files:
        found += faults(str(path.relative_to(SOURCE)), path.read_text(encoding="utf8"))
    return found


def self_test():
    good = {
        "commands/run.cpp": '#include "store/open.hpp"\n#include "commands/hold.hpp"\n#include <vector>\n',
        "store/redis/reply.cpp": "#include <hiredis/read.h>\n",
        "main.cpp": '#include "cli/parser.hpp"\n',
    }
    bad = {
        "util/fd.hpp": '#include "lease/name.hpp"\n',
        "supervise/job.cpp": '  #  include "lease/name.hpp"\n',
        "commands/run.cpp": '#include "store/redis/connection.hpp"\n',
        "lease/renewer.cpp": "#include <hiredis/hiredis.h>\n",
        "commands/status.cpp": "#include <CLI/CLI.hpp>\n",
        "output/state_text.hpp": "#include <nlohmann/json.hpp>\n",
        "output/message.cpp": "#include <iostream>\n",
        "store/redis/connection.cpp": "#include <openssl/ssl.h>\n",
        "elsewhere/x.cpp": "",
    }
    for path, text in good.items():
        assert not faults(path, text), faults(path, text)
    for path, text in bad.items():
        assert len(faults(path, text)) == 1, path


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    found = check_tree()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
