# SPDX-License-Identifier: MIT
# fish completion for klock.

# Prints what the line before the cursor has: the subcommand, then the number of words after it (options and their
# values do not count; the words of a command that klock is to run count as one).
function __klock_parse
    set -l tokens (commandline -opc)
    set -l takes_value --url --config --prefix --sentinel-user --tls-ca --tls-cert --tls-key --tls-server-name --store-timeout --audit-file --key --wait --conflict-exit-code \
        --max-waiters --slots --also --once --once-ttl --unless --skip-exit-code --ttl --kill-after \
        --signal --on-lost --on-gone --if-unavailable --wait-replicas --max-hold --min-hold --message --outcome-file --record-command --group \
        --id --reason --pid --for --shell --left --token --token-file --since --interval --sort --older-than
    set -l subcommand
    set -l words 0
    set -l skip no
    set -l only_words no
    set -l i 1
    for token in $tokens[2..-1]
        set i (math $i + 1)
        if test $skip = yes
            set skip no
        else if test "$subcommand" = run -a $words -ge 1 -a "x$token" = x--
            printf '%s\n' run 2 (math $i + 1)
            return
        else if test $only_words = no -a "x$token" = x--
            set only_words yes
        else if test $only_words = no; and string match -qr '^-.' -- $token
            if test "$subcommand" = watch -a "x$token" = x--once
                # No KEY follows it there.
            else if contains -- $token $takes_value; or string match -qr '^-[^-wEkmc]*[wEkmc]$' -- $token
                set skip yes
            end
        else if test -z "$subcommand"
            set subcommand $token
        else if test "$subcommand" = run -a $words -ge 1
            printf '%s\n' run 2 $i
            return
        else
            set words (math $words + 1)
        end
    end
    printf '%s\n' "$subcommand" $words (math (count $tokens) + 1)
end

# Whether options of subcommand $argv[1] may stand here (none: of any).
function __klock_options
    set -l at (__klock_parse)
    test "$at[1]" = run -a "$at[2]" -ge 2; and return 1
    test (count $argv) -eq 0; or contains -- "$at[1]" $argv
end

# Whether the word here is word $argv[2] after subcommand $argv[1].
function __klock_word
    set -l at (__klock_parse)
    test "$at[1]" = "$argv[1]" -a "$at[2]" = "$argv[2]"
end

function __klock_subcommand
    set -l at (__klock_parse)
    test -z "$at[1]"
end

# Whether the word here may be one of the command that klock is to run.
function __klock_command
    set -l at (__klock_parse)
    test "$at[1]" = run -a "$at[2]" -ge 1
end

function __klock_complete_command
    set -l at (__klock_parse)
    set -l tokens (commandline -opc) (commandline -ct)
    set -l line (string escape -- $tokens[$at[3]..-2])
    complete --do-complete=(string join ' ' -- $line $tokens[-1])
end

# Lock names from the store that the line so far means; a store that does not answer must not hang the shell.
function __klock_names
    set -l tokens (commandline -opc)
    set -l globals
    for i in (seq 2 (count $tokens))
        switch $tokens[$i]
            case --url --config --prefix --sentinel-user --tls-ca --tls-cert --tls-key --tls-server-name
                set -a globals $tokens[$i] $tokens[(math $i + 1)]
            case '--url=*' '--config=*' '--prefix=*' '--sentinel-user=*' '--tls-*=*'
                set -a globals $tokens[$i]
        end
    end
    $tokens[1] $globals list --names --store-timeout 1s 2>/dev/null
end

complete -c klock -f
complete -c klock -n __klock_subcommand -a run -d 'Run a command under a lock'
complete -c klock -n __klock_subcommand -a acquire -d 'Take a lock for a shell script'
complete -c klock -n __klock_subcommand -a renew -d 'Extend the lease of a hold'
complete -c klock -n __klock_subcommand -a check -d 'Whether a hold still stands'
complete -c klock -n __klock_subcommand -a release -d 'End a hold'
complete -c klock -n __klock_subcommand -a wait -d 'Wait until a lock is free'
complete -c klock -n __klock_subcommand -a status -d 'Show who holds locks and who waits'
complete -c klock -n __klock_subcommand -a list -d 'List the locks in use'
complete -c klock -n __klock_subcommand -a watch -d 'Show the locks on a live screen'
complete -c klock -n __klock_subcommand -a force-release -d 'End somebody\'s hold'
complete -c klock -n __klock_subcommand -a log -d 'Show what happened to locks'
complete -c klock -n __klock_subcommand -a stats -d 'Show how locks are used, with advice'
complete -c klock -n __klock_subcommand -a once -d 'Show or clear the mark of once-only work'
complete -c klock -n __klock_subcommand -a doctor -d 'Look for what makes locks unsafe in the store'
complete -c klock -n __klock_subcommand -a completion -d 'Print the completion script for a shell'

complete -c klock -n '__klock_word completion 0' -a 'bash zsh fish'
complete -c klock -n '__klock_word once 0' -a 'show clear'
complete -c klock -n '__klock_word once 1' -a '(__klock_names)' -d Lock
complete -c klock -n '__klock_word run 0' -a '(__klock_names)' -d Lock
for subcommand in acquire renew check release wait
    complete -c klock -n "__klock_word $subcommand 0" -a '(__klock_names)' -d Lock
end
complete -c klock -n '__klock_options status' -a '(__klock_names)' -d Lock
complete -c klock -n '__klock_word list 0' -a '(__klock_names)' -d Lock
complete -c klock -n '__klock_word log 0' -a '(__klock_names)' -d Lock
complete -c klock -n '__klock_word watch 0' -a '(__klock_names)' -d Lock
complete -c klock -n '__klock_word force-release 0' -a '(__klock_names)' -d Lock
complete -c klock -n __klock_command -a '(__klock_complete_command)'

complete -c klock -n __klock_options -l url -x -a 'local: redis:// rediss:// unix:// redis-sentinel:// rediss-sentinel:// redis-cluster:// rediss-cluster:// redlock:// redlocks://' -d 'The store'
complete -c klock -n __klock_options -l config -rF -d 'Read this configuration file and no other'
complete -c klock -n __klock_options -l prefix -x -d 'Put this in front of the name to make the key'
complete -c klock -n __klock_options -l sentinel-user -x -d 'How to log in to the Sentinels'
complete -c klock -n __klock_options -l tls-ca -rF -d 'Trust these authorities, not those of the system'
complete -c klock -n __klock_options -l tls-cert -rF -d 'Our certificate, for a server that wants one'
complete -c klock -n __klock_options -l tls-key -rF -d 'The key of our certificate'
complete -c klock -n __klock_options -l tls-server-name -x -d 'The name in the certificate of the server'
complete -c klock -n __klock_options -l store-timeout -x -d 'A store silent for this long is unreachable'
complete -c klock -n __klock_options -l audit-file -rF -d 'Append each event to this file'
complete -c klock -n __klock_options -s q -l quiet -d 'No messages except usage errors'
complete -c klock -n __klock_options -s v -l verbose -d 'Say what happens and why'
complete -c klock -n __klock_options -l version -d 'Print the version'
complete -c klock -n __klock_options -s h -l help -d 'Print a summary of the options'

complete -c klock -n '__klock_options run acquire' -s n -l nonblock -d 'Do not wait for the lock'
complete -c klock -n '__klock_options run acquire wait' -s w -l wait -x -d 'Wait at most this long'
complete -c klock -n '__klock_options run acquire wait' -s E -l conflict-exit-code -x -d 'Status when busy'
complete -c klock -n '__klock_options run acquire' -s x -l exclusive -d 'An exclusive lock (default)'
complete -c klock -n '__klock_options run acquire' -s s -l shared -d 'Together with others that are shared'
complete -c klock -n '__klock_options run acquire' -l slots -x -d 'At most this many at once'
complete -c klock -n '__klock_options run acquire' -l max-waiters -x -d 'Give up at once if so many are waiting already'
complete -c klock -n '__klock_options run' -l also -x -a '(__klock_names)' -d 'Hold this lock too'
complete -c klock -n '__klock_options run' -l once -x -d 'Skip if this key was completed'
complete -c klock -n '__klock_options run' -l once-ttl -x -d 'How long the mark is kept'
complete -c klock -n '__klock_options run' -l unless -x -d 'Skip if this shell command exits 0 under the lock'
complete -c klock -n '__klock_options run' -l skip-exit-code -x -d 'Status when skipped'
complete -c klock -n '__klock_options run' -l tree -d 'Every descendant counts'
complete -c klock -n '__klock_options run acquire renew doctor' -l ttl -x -d 'The lease'
complete -c klock -n '__klock_options run' -s k -l kill-after -x -d 'Time between the stop signal and KILL'
complete -c klock -n '__klock_options run acquire' -l signal -x -a 'TERM INT QUIT HUP USR1 USR2 KILL' -d 'Stop with this signal'
complete -c klock -n '__klock_options run acquire' -l on-lost -x -a 'stop warn' -d 'What to do when the lease is lost'
complete -c klock -n '__klock_options run' -l on-gone -x -a 'lost reclaim' -d 'What to do when the record has vanished'
complete -c klock -n '__klock_options run acquire' -l if-unavailable -x -a 'fail wait local run' -d 'When the store is out of reach'
complete -c klock -n '__klock_options run acquire' -l wait-replicas -x -d 'Held only once so many replicas have it'
complete -c klock -n '__klock_options run' -l max-hold -x -d 'Stop the command after this long'
complete -c klock -n '__klock_options run' -l min-hold -x -d 'Keep the name taken for at least this long'
complete -c klock -n '__klock_options run acquire' -s m -l message -x -d 'Text for everyone who looks at the lock'
complete -c klock -n '__klock_options run' -s c -x -d 'Run this with the shell'
complete -c klock -n '__klock_options run' -l outcome-file -rF -d 'Write what happened as JSON'
complete -c klock -n '__klock_options run' -l record-command -x -a 'name full' -d 'What the log tells of the command'
complete -c klock -n '__klock_options run acquire' -l group -x -d 'Count it for this group'
complete -c klock -n '__klock_options stats' -l prometheus -d 'Print the text format of Prometheus'
complete -c klock -n '__klock_options run acquire renew check release wait status force-release log once' -l key -x -d 'Use exactly this key in the store'

complete -c klock -n '__klock_options acquire' -l pid -x -a '(__fish_complete_pids)' -d 'For this process, not for the calling shell'
complete -c klock -n '__klock_options acquire' -l no-keeper -d 'A lease that nobody renews'
complete -c klock -n '__klock_options acquire' -l for -x -d 'A hold for maintenance of this length'
complete -c klock -n '__klock_options acquire' -l shell -x -a 'sh fish' -d 'What to print for'

complete -c klock -n '__klock_options check' -l left -x -d 'The lease must last this much longer'
complete -c klock -n '__klock_options renew check release' -l token -x -d 'The token of the hold'
complete -c klock -n '__klock_options renew check release' -l token-file -rF -d 'Read the token from this file'

complete -c klock -n '__klock_options status list log stats once doctor' -l json -d 'Print JSON'
complete -c klock -n '__klock_options list' -l older-than -x -d 'Only what has been held for at least this long'
complete -c klock -n '__klock_options list' -l names -d 'Print the names only'

complete -c klock -n '__klock_options log' -l since -x -d 'Only what happened so long ago'
complete -c klock -n '__klock_options log' -s f -l follow -d 'Go on with what happens from now on'
complete -c klock -n '__klock_options log' -l timeline -d 'A chart of who held and who waited'
complete -c klock -n '__klock_options watch' -l interval -x -d 'Look again this often'
complete -c klock -n '__klock_options watch' -l once -d 'Print the locks once'
complete -c klock -n '__klock_options watch' -l sort -x -a 'name age left waiters' -d 'The order'

complete -c klock -n '__klock_options force-release' -l id -x -d 'Refuse unless this hold has it'
complete -c klock -n '__klock_options force-release' -l reason -x -d 'Tell the stopped side why'
complete -c klock -n '__klock_options force-release' -s y -l yes -d 'Do not ask'
complete -c klock -n '__klock_options force-release' -l now -d 'Remove the record at once'
complete -c klock -n '__klock_options force-release' -l stale -d 'Only if the holder is provably dead'
complete -c klock -n '__klock_options force-release' -s w -l wait -x -d 'Wait at most this long for the holder to stop'
