#!/bin/sh
# SPDX-License-Identifier: MIT
# A lock as shell scripts make it at home. PORT LIFE_MS NAME COMMAND...
port=$1 life=$2 name=$3
shift 3
read -r token </proc/sys/kernel/random/uuid
until [ "$(redis-cli -p "$port" SET "$name" "$token" NX PX "$life")" = OK ]; do
  sleep 0.1
done
"$@"
status=$?
redis-cli -p "$port" EVAL 'return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1])' 1 "$name" "$token" >/dev/null
exit "$status"
