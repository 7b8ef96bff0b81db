# SPDX-License-Identifier: MIT
# bash completion for klock; needs no other package.

# Prints the options of subcommand $1, short and long.
_klock_options() {
  local global="--url --config --prefix --sentinel-user --tls-ca --tls-cert --tls-key --tls-server-name --store-timeout --audit-file -q --quiet -v --verbose --version -h --help"
  case $1 in
    run)
      echo "$global -n --nonblock -w --wait -E --conflict-exit-code --max-waiters -x --exclusive -s --shared --slots" \
        "--also --once --once-ttl --unless --skip-exit-code --tree --ttl -k --kill-after --signal --on-lost --on-gone" \
        "--if-unavailable --wait-replicas --max-hold --min-hold -m --message -c --outcome-file --record-command --group --key"
      ;;
    acquire)
      echo "$global -n --nonblock -w --wait -E --conflict-exit-code --max-waiters -x --exclusive -s --shared --slots" \
        "--ttl --on-lost --signal --pid --no-keeper --for --if-unavailable --wait-replicas -m --message --group --shell --key"
      ;;
    renew) echo "$global --ttl --token --token-file --key" ;;
    check) echo "$global --left --token --token-file --key" ;;
    release) echo "$global --token --token-file --key" ;;
    wait) echo "$global -w --wait -E --conflict-exit-code --key" ;;
    status) echo "$global --json --key" ;;
    list) echo "$global --json --older-than --names" ;;
    log) echo "$global --json --key --since -f --follow --timeline" ;;
    stats) echo "$global --json --prometheus" ;;
    watch) echo "$global --interval --once --sort" ;;
    once) echo "$global --json --key" ;;
    doctor) echo "$global --json --ttl" ;;
    force-release) echo "$global --id --reason -y --yes --now --stale -w --wait --key" ;;
    *) echo "$global" ;;
  esac
}

# Whether option $1 takes a value in the next word.
_klock_takes_value() {
  case $1 in
    --url | --config | --prefix | --sentinel-user | --tls-ca | --tls-cert | --tls-key | --tls-server-name | --store-timeout | --audit-file | --key | --wait | \
      --conflict-exit-code | --max-waiters | --slots | --also | --once | --once-ttl | --unless | --skip-exit-code | --ttl | --kill-after | \
      --signal | --on-lost | --on-gone | --if-unavailable | --wait-replicas | --max-hold | --min-hold | --message | --outcome-file | \
      --record-command | --group | --id | --reason | --pid | --for | --shell | --left | --token | --token-file | --since | --interval | \
      --sort | --older-than)
      return 0
      ;;
    --*) return 1 ;;
  esac
  # One that has its value already may end in such a letter: -w5m.
  [[ $1 =~ ^-[^-wEkmc]*[wEkmc]$ ]]
}

# Sets COMPREPLY to those of the remaining arguments that begin with $1.
_klock_reply() {
  local current=$1 word
  shift
  for word in "$@"; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
}

# Lock names from the store that the line so far means; a store that does not answer must not hang the shell.
_klock_names() {
  local current=$1 name
  while IFS= read -r name; do
    [[ $name == "$current"* ]] || continue
    COMPREPLY+=("$(printf '%q' "$name")")
  done < <("${klock_command/#\~/$HOME}" "${klock_globals[@]}" list --names --store-timeout 1s 2>/dev/null)
}

# readline splits words at ':' and '=' and replaces only the last piece: leave out what stands before it.
_klock_trim() {
  local current=$1 breaks="" i head
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=":"
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+="="
  [[ -n $breaks ]] || return 0
  head=${current%"${current##*["$breaks"]}"}
  for i in "${!COMPREPLY[@]}"; do
    COMPREPLY[i]=${COMPREPLY[i]#"$head"}
  done
}

# Completes the value $2 of option $1.
_klock_value() {
  local option=$1 current=$2
  case $option in
    --also) _klock_names "$current" ;;
    --on-lost) _klock_reply "$current" stop warn ;;
    --sort) _klock_reply "$current" name age left waiters ;;
    --on-gone) _klock_reply "$current" lost reclaim ;;
    --if-unavailable) _klock_reply "$current" fail wait local run ;;
    --signal) _klock_reply "$current" TERM INT QUIT HUP USR1 USR2 KILL ;;
    --url)
      _klock_reply "$current" local: redis:// rediss:// unix:// redis-sentinel:// rediss-sentinel:// redis-cluster:// rediss-cluster:// redlock:// redlocks://
      compopt -o nospace 2>/dev/null
      ;;
    --shell) _klock_reply "$current" sh fish ;;
    --record-command) _klock_reply "$current" name full ;;
    --config | --outcome-file | --audit-file | --token-file | --tls-ca | --tls-cert | --tls-key)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      compopt -o filenames 2>/dev/null
      ;;
  esac
}

# Completes the command that klock is to run: word $1 of COMP_WORDS is its first word.
_klock_command() {
  local offset=$1 current=$2
  if declare -F _command_offset >/dev/null; then
    _command_offset "$offset"
  elif ((COMP_CWORD == offset)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
}

# Joins what readline split at ':' and '=' again. Sets words, and starts: the index in COMP_WORDS of each.
_klock_words() {
  local i joined=0 word
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((joined > 0 && i > 1)) && [[ $word == [:=]* || ${COMP_WORDS[i - 1]} == *[:=] ]] &&
      _klock_adjacent "$i"; then
      words[joined - 1]+=$word
    else
      words[joined]=$word
      starts[joined]=$i
      joined=$((joined + 1))
    fi
  done
}

# Whether no blank stands before word $1 on the line.
_klock_adjacent() {
  local i rest=$COMP_LINE
  for ((i = 0; i < $1; i++)); do
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"${COMP_WORDS[i]}"}
  done
  [[ -n ${COMP_WORDS[$1]} && $rest != [[:space:]]* ]]
}

_klock() {
  local words=() starts=() klock_globals=() klock_command=${COMP_WORDS[0]}
  local i word subcommand="" name="" count=0 option="" only_words=""
  COMPREPLY=()
  _klock_words
  local last=$((${#words[@]} - 1)) current=${words[-1]}

  for ((i = 1; i < last; i++)); do
    word=${words[i]}
    if [[ -n $option ]]; then
      option=""
    elif [[ $subcommand == run && -n $name && $word == -- ]]; then
      _klock_command "${starts[i + 1]}" "$current"
      return
    elif [[ -z $only_words && $word == -- ]]; then
      only_words=yes
    elif [[ -z $only_words && $word == -?* ]]; then
      # watch has a --once without a KEY.
      [[ $subcommand == watch && $word == --once ]] || ! _klock_takes_value "$word" || option=$word
      case $word in
        --url=* | --config=* | --prefix=* | --sentinel-user=* | --tls-*=*) klock_globals+=("$word") ;;
        --url | --config | --prefix | --sentinel-user | --tls-*) klock_globals+=("$word" "${words[i + 1]}") ;;
      esac
    elif [[ -z $subcommand ]]; then
      subcommand=$word
    elif [[ $subcommand == run && -n $name ]]; then
      _klock_command "${starts[i]}" "$current"
      return
    else
      name=$word
      count=$((count + 1))
    fi
  done

  if [[ -n $option ]]; then
    _klock_value "$option" "$current"
  elif [[ -z $only_words && $current == --*=* ]]; then
    _klock_value "${current%%=*}" "${current#*=}"
    current=${current#*=}
  elif [[ -z $only_words && $current == -* ]]; then
    # shellcheck disable=SC2046  # one word for each option
    _klock_reply "$current" $(_klock_options "$subcommand")
  else
    case $subcommand in
      "")
        _klock_reply "$current" run acquire renew check release wait status list watch force-release log stats once \
          doctor completion
        ;;
      completion) [[ -n $name ]] || _klock_reply "$current" bash zsh fish ;;
      run)
        if [[ -z $name ]]; then
          _klock_names "$current"
        else
          _klock_command "${starts[last]}" "$current"
          return
        fi
        ;;
      status) _klock_names "$current" ;;
      once)
        case $count in
          0) _klock_reply "$current" show clear ;;
          1) _klock_names "$current" ;;
        esac
        ;;
      acquire | renew | check | release | wait | list | watch | force-release | log)
        [[ -n $name ]] || _klock_names "$current"
        ;;
    esac
  fi
  _klock_trim "$current"
}

complete -F _klock klock
