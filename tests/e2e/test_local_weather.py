# SPDX-License-Identifier: MIT
"""The local store in bad weather: directories that are not there, not ours, full, shared or damaged."""
import os
import shutil
import stat
import subprocess
import time

import pytest
from support.proc import SLOW, alive, wait_until
from support.runner import NOBODY, give_away, lock_files


def one_line(done, status):
    assert done.status in status, (done.status, done.err)
    assert done.out == "" and done.err.startswith("klock: n: ") and done.err.count("\n") == 1, done.err


def test_directory_is_made_and_left_empty(make_klock, tmp_path):
    klock = make_klock(f"local:{tmp_path}/a-new-one")
    assert klock.run("run", "n", "--", "true").status == 0
    assert lock_files(tmp_path / "a-new-one") == []


def test_status_and_list_make_no_directory(make_klock, tmp_path):
    klock = make_klock(f"local:{tmp_path}/a-new-one")
    assert klock.run("status", "n").status == 1 and klock.run("list").status == 0
    assert not (tmp_path / "a-new-one").exists()


def test_unwritable_directory_is_77_with_its_path(make_klock, tmp_path, as_nobody):
    directory = tmp_path / "not-mine"
    directory.mkdir(mode=0o555)
    done = as_nobody(make_klock(f"local:{directory}"), "run", "n", "--", "echo", "ran")
    done.wait()
    one_line(done, [77])
    assert str(directory) in done.err


def test_directory_that_is_a_file_is_an_error_with_its_path(make_klock, tmp_path):
    (tmp_path / "file").write_text("")
    done = make_klock(f"local:{tmp_path}/file").run("run", "n", "--", "echo", "ran")
    one_line(done, [71, 77])
    assert f"{tmp_path}/file" in done.err


def test_full_disk_is_71_with_its_path(make_klock, tmp_path):
    directory = tmp_path / "full"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "none", directory], check=False).returncode != 0:
        pytest.skip("may not mount a small file system")
    try:
        done = make_klock(f"local:{directory}").run("run", "n", "--", "echo", "ran")
        one_line(done, [71])
        assert str(directory) in done.err
    finally:
        subprocess.run(["umount", directory], check=True)


def test_file_size_limit_of_0_never_ends_in_silence(on_local):
    done = on_local.start_program("sh", "-c", f'ulimit -f 0; exec "{on_local.path}" run n -- true 2>/dev/null')
    assert done.wait() in (0, 71)


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 7, 8, 9, 10, 12])
def test_few_descriptors_end_in_a_message_or_in_success(store, limit):
    done = store.start_program("prlimit", f"--nofile={limit}", store.path, "run", "n", "--", "echo", "ran")
    status = done.wait()
    assert (status, done.out) == (0, "ran\n") or (status in (69, 71, 78, 79, 126, 127) and done.err), (status, done.out, done.err)
    assert store.is_free("n")


def test_default_directory_of_a_user_is_private(make_klock, as_nobody):
    klock = make_klock()
    done = as_nobody(klock, "run", "n", "--", "echo", "ran")
    assert done.wait() == 0, done.err
    assert stat.S_IMODE(os.stat(f"{klock.directory}/runtime/klock").st_mode) == 0o700


def test_a_cron_job_meets_the_locks_of_the_login_session(make_klock, as_nobody):
    klock = make_klock()
    cron = as_nobody(klock, "run", "klock-test-cron", "--", "sleep", "1000", env={"XDG_RUNTIME_DIR": ""})
    session = {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid() or NOBODY}"}

    def busy():
        done = as_nobody(klock, "run", "-n", "klock-test-cron", "--", "true", env=session)
        return done.wait() == 75

    wait_until(busy, what="the session sees cron's lock")
    cron.send(15)
    assert cron.wait() == 143


def test_default_directory_that_others_may_write_or_that_is_a_link_is_refused(make_klock, tmp_path, as_nobody):
    klock = make_klock()
    runtime = tmp_path / "runtime"
    for prepare in (lambda path: (path.mkdir(), path.chmod(0o777)), lambda path: path.symlink_to("/tmp")):
        shutil.rmtree(runtime, ignore_errors=True)
        runtime.mkdir(mode=0o755)
        prepare(runtime / "klock")
        give_away(runtime / "klock")
        done = as_nobody(klock, "run", "n", "--", "echo", "ran", env={"XDG_RUNTIME_DIR": str(runtime)})
        done.wait()
        one_line(done, [77])


def test_two_users_share_an_explicit_directory(make_klock, tmp_path, as_nobody):
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    klock = make_klock(f"local:{directory}")
    mine = klock.hold("n")
    other = as_nobody(klock, "run", "-n", "n", "--", "echo", "ran")
    assert other.wait() == 75 and other.out == ""
    waiter = as_nobody(klock, "run", "n", "--", "echo", "ran")
    wait_until(lambda: klock.waiters("n") == 1)
    mine.send(15)
    mine.wait()
    assert waiter.wait() == 0 and waiter.out == "ran\n"


def test_names_cannot_leave_the_directory(on_local, local_directory, tmp_path):
    before = sorted(os.listdir(tmp_path))
    for name in ("../escape", "/etc/passwd", "..", ".", "a/../../b", ".hidden"):
        holder = on_local.hold(name, command="read x; exit 0", stdin=-1)
        assert on_local.run("run", "-n", name, "--", "true").status == 75, name
        holder.popen.stdin.close()
        assert holder.wait() == 0
    assert sorted(os.listdir(tmp_path)) == before and lock_files(local_directory) == []


@pytest.mark.parametrize("damage", [
    pytest.param(b"", id="empty"), pytest.param(b"\0" * 10000, id="zeros"), pytest.param(b"{", id="cut"),
    pytest.param(b'{"pid": "x", "user": 5}', id="wrong types"), pytest.param(b"\xff" * 5000, id="no text"),
    pytest.param(b"null", id="null"), pytest.param(b"[" * 4000, id="nested")])
def test_damaged_details_never_weaken_exclusion(on_local, local_directory, damage):
    holder = on_local.hold("n")
    (path,) = [local_directory / name for name in lock_files(local_directory)]
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(damage)
    done = on_local.run("run", "-n", "n", "--", "echo", "ran")
    assert (done.status, done.out) == (75, "") and done.err.startswith("klock: n: ")
    assert on_local.state("n")["state"] == "held" and on_local.run("list").status == 0
    waiter = on_local.queue("n", 1)[0]
    holder.send(15)
    assert holder.wait() == 143 and waiter.wait() == 0


def test_removed_lock_file_is_noticed_and_counts_as_lost(on_local, local_directory):
    holder = on_local.hold("n")
    command = holder.command
    for path in [local_directory / name for name in lock_files(local_directory)]:
        path.unlink()
    assert holder.wait(3) == 79 and not alive(command) and holder.err.startswith("klock: n: ")


def test_waiters_go_over_when_the_lock_file_is_removed(on_local, local_directory, sections):
    holder = on_local.hold("n")
    waiters = on_local.queue("n", 3, *sections.command("{}", 5))
    for path in [local_directory / name for name in lock_files(local_directory)]:
        path.unlink()
    assert [waiter.wait() for waiter in waiters] == [0, 0, 0]
    assert holder.wait() == 79
    sections.check()


def test_many_short_holds_leave_nothing_and_never_overlap(on_local, local_directory, sections):
    count = 60 if SLOW <= 1 else 15
    loop = 'i=0; while [ $i -lt ' + str(count) + ' ]; do "$0" run n -- "$@" || exit 1; i=$((i+1)); done'
    loops = [on_local.start_program("sh", "-c", loop, on_local.path, *sections.command(f"l{i}", 0)) for i in range(8)]
    assert [running.wait(60) for running in loops] == [0] * 8
    assert len(sections.check()) == 8 * count and lock_files(local_directory) == []


def test_frozen_local_waiter_in_front_delays_but_never_overlaps(on_local, sections):
    """A kernel lock waits for a frozen process; what counts is that the others wait, and go on once it does."""
    holder = on_local.hold("n")
    frozen, other = on_local.queue("n", 2, *sections.command("{}", 1))
    os.kill(frozen.pid, 19)
    holder.send(15)
    holder.wait()
    os.kill(frozen.pid, 18)
    assert frozen.wait() == 0 and other.wait() == 0
    sections.check()
    wait_until(lambda: on_local.is_free("n"))


def test_list_tells_of_locks_that_it_may_not_read(make_klock, tmp_path, as_nobody):
    directory = tmp_path / "shared"
    directory.mkdir(mode=0o755)
    klock = make_klock(f"local:{directory}")
    klock.hold("n")
    (directory / lock_files(directory)[0]).chmod(0o600)
    done = as_nobody(klock, "list")
    assert done.wait() == 77 and str(directory) in done.err and done.out == ""


def test_ended_cooldowns_and_crashes_leave_no_files(make_klock, tmp_path):
    directory = tmp_path / "locks"
    klock = make_klock(f"local:{directory}")
    for number in range(3):
        assert klock.run("run", "--min-hold", "50ms", f"day-{number}", "--", "true").status == 0
        wait_until(lambda n=number: klock.is_free(f"day-{n}"))
    assert not lock_files(directory), "status removed the last one"
    for name in ("a", "b"):
        assert klock.run("run", "--min-hold", "300ms", name, "--", "true").status == 0
    time.sleep(0.4)  # the cooldowns, which nothing shows but the passing of time
    assert klock.run("run", "--min-hold", "1h", "c", "--", "true").status == 0
    assert lock_files(directory) == ["klock:c.lock"]


def test_lock_files_of_others_stay(make_klock, tmp_path):
    directory = tmp_path / "locks"
    directory.mkdir()
    others = {"apt.lock": "4711\n", "empty.lock": "", "klock:x.lock": "{}", "y.lock": '{"id":"0123456789ab","key":"z"}'}
    for name, text in others.items():
        (directory / name).write_text(text)
    klock = make_klock(f"local:{directory}")
    assert klock.run("list").status == 0
    assert klock.run("status", "--key", "apt", "n").status == 1 and klock.run("status", "x").status == 1
    assert klock.run("run", "--min-hold", "50ms", "n", "--", "true").status == 0
    assert {name: (directory / name).read_text() for name in others} == others


def test_busy_after_waiting_names_the_holder_of_now(store):
    first = store.hold("n", "-m", "AAA")
    second = store.queue("n", 1, "sleep", "1000", options=("-m", "BBB"))[0]
    third = store.start("run", "-w", f"{1.5 * SLOW}s", "n", "--", "true")
    wait_until(lambda: store.waiters("n") == 2)
    first.send(15)
    assert third.wait() == 75 and "BBB" in third.err and "AAA" not in third.err
    assert second.status is None
