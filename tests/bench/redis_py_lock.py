# SPDX-License-Identifier: MIT
"""The Lock of redis-py around a command. PORT LIFE_S NAME COMMAND..."""
import subprocess
import sys

import redis

port, life, name, *command = sys.argv[1:]
with redis.Redis(port=int(port)).lock(name, timeout=float(life)):
    status = subprocess.call(command)
sys.exit(status)
