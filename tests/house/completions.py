# SPDX-License-Identifier: MIT
"""The completion scripts, asked in their shells: they offer exactly the options of --help, the names of locks in the
store, and the completion of the command that klock is to run; `klock completion` prints them unchanged."""

import os
import re
import subprocess
import sys
import tempfile

import pexpect

import surfaces

KLOCK = os.environ["KLOCK"]
COMPLETIONS = surfaces.ROOT / "completions"
FILES = {"bash": "klock.bash", "zsh": "_klock", "fish": "klock.fish"}
# Accepted everywhere, but offered only where they mean something.
NOT_OFFERED = {
    "--json": {"run", "acquire", "renew", "check", "release", "wait", "watch", "force-release", "completion"},
    "--key": {"list", "watch", "stats", "doctor", "completion"},
}

ASK_BASH = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
# What readline does: blanks part words, and = and : are words of their own.
COMP_WORDS=($(sed 's/[:=]/ & /g' <<<"$2"))
[[ $2 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_klock klock "${COMP_WORDS[-1]}" ""
printf '%s\n' "${COMPREPLY[@]}"
"""

ZSH_SETUP = r"""PS1='READY> '; unset zle_bracketed_paste; fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D
LISTMAX=0; zstyle ':completion:*' verbose no; setopt no_list_beep no_always_last_prompt list_rows_first
unsetopt auto_menu; bindkey '^G' list-choices; print IN''IT
"""


def environment(url, scratch):
    return {"PATH": f"{scratch}/bin:/usr/bin:/bin", "HOME": scratch, "TERM": "dumb", "LANG": "C.UTF-8", "KLOCK_URL": url}


def ask_bash(line, env):
    ran = subprocess.run(
        ["bash", "--norc", "-c", ASK_BASH, "bash", COMPLETIONS / "klock.bash", line],
        env=env, capture_output=True, text=True, timeout=60,
    )
    assert not ran.stderr, ran.stderr
    return set(ran.stdout.split())


def ask_fish(line, env):
    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"source {COMPLETIONS}/klock.fish; complete -C '{line}'"],
        env=env, capture_output=True, text=True, timeout=60,
    )
    assert not ran.stderr, ran.stderr
    return {row.split("\t")[0] for row in ran.stdout.splitlines()}


def ask_zsh(line, env):
    shell = pexpect.spawn("zsh", ["-f", "-i"], env=env, encoding="utf8", timeout=60, dimensions=(300, 40))
    try:
        shell.send(ZSH_SETUP % COMPLETIONS)
        shell.expect("INIT\r")
        shell.expect("READY> ")
        shell.send(line + "\x07")
        if shell.expect(["READY> ", pexpect.TIMEOUT], timeout=30) == 1:  # printed again below the list, if there is one
            return set()
        listed = shell.before.split(line, 1)[1]
    finally:
        shell.close(force=True)
    return set(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", listed).split())


def expect(found, shell, line, offered, wanted, exactly=True):
    if not (offered == wanted if exactly else wanted <= offered):
        found.append(f"{shell}: '{line}': offers {sorted(offered)[:60]}, expected {sorted(wanted)}")


def check_options(found, env):
    everywhere = surfaces.help_options(surfaces.help_text())
    for subcommand in surfaces.SUBCOMMANDS:
        options = {**everywhere, **surfaces.help_options(surfaces.help_text(subcommand))}
        wanted = {option for option in options if subcommand not in NOT_OFFERED.get(option, ())}
        long_ones = {option for option in wanted if option.startswith("--")}
        line = f"klock {subcommand} -"
        expect(found, "bash", line, ask_bash(line, env), wanted)
        expect(found, "fish", line, ask_fish(line, env), wanted)
        line += "-"
        expect(found, "zsh", line, ask_zsh(line, env), long_ones)


def check_words(found, env):
    names = {"nightly", "night:a"}
    for shell, ask in (("bash", ask_bash), ("zsh", ask_zsh), ("fish", ask_fish)):
        for line in ("klock run nig", "klock run -w 5 nig", "klock status nig", "klock force-release -y nig",
                     "klock acquire --slots 3 nig", "klock release --token 0 nig", "klock wait nig"):
            expect(found, shell, line, ask(line, env), names)
        expect(found, shell, "klock ", ask("klock ", env), set(surfaces.SUBCOMMANDS))
        expect(found, shell, "klock once ", ask("klock once ", env), {"show", "clear"})
        expect(found, shell, "klock once show nig", ask("klock once show nig", env), names)
        expect(found, shell, "klock completion ", ask("klock completion ", env), {"bash", "zsh", "fish"})
        expect(found, shell, "klock acquire --shell ", ask("klock acquire --shell ", env), {"sh", "fish"})
        expect(found, shell, "klock acquire --if-unavailable ", ask("klock acquire --if-unavailable ", env),
               {"fail", "wait", "local", "run"})
        expect(found, shell, "klock run --on-lost ", ask("klock run --on-lost ", env), {"stop", "warn"})
        for line in ("klock run x cat /etc/host", "klock run x -n -- cat /etc/host"):
            paths = {path.lstrip("/").removeprefix("etc/").rstrip("*") for path in ask(line, env)}
            expect(found, shell, line, paths, {"hosts", "hostname"}, exactly=False)
    expect(found, "bash", "klock run night:", ask_bash("klock run night:", env), {"a"})
    expect(found, "bash", "klock run --on-gone=", ask_bash("klock run --on-gone=", env), {"lost", "reclaim"})


def check_printed(found):
    for shell, file in FILES.items():
        printed = subprocess.run([KLOCK, "completion", shell], capture_output=True, timeout=30).stdout
        if printed != (COMPLETIONS / file).read_bytes():
            found.append(f"klock completion {shell} differs from completions/{file}")


def main():
    found = []
    check_printed(found)
    with tempfile.TemporaryDirectory() as scratch:
        os.mkdir(f"{scratch}/bin")
        os.symlink(KLOCK, f"{scratch}/bin/klock")
        env = environment(f"local:{scratch}/locks", scratch)
        holders = []
        try:
            for name in ("nightly", "night:a"):
                holder = subprocess.Popen(
                    [KLOCK, "run", name, "--", "sh", "-c", "echo held; exec sleep 300"],
                    env=env, stdout=subprocess.PIPE, text=True,
                )
                holders.append(holder)
                assert holder.stdout.readline() == "held\n"
            check_options(found, env)
            check_words(found, env)
        finally:
            for holder in holders:
                holder.terminate()
                holder.wait(timeout=30)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
