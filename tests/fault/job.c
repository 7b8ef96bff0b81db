// SPDX-License-Identifier: MIT
// The command under the lock, and the pulse of the machine. Both append to one journal, a record in one write(2) each.
//
//   job hold JOURNAL WHO NAME MODE MSEC plain|polite|stubborn|family
//     begin, a sign of life about every 2 ms, and end: "WHAT NS WHO NAME MODE FENCE PID". NS: CLOCK_BOOTTIME, read before
//     the record is written. It believes nothing that klock says but the fence. Ends with 42.
//     plain: dies of SIGTERM; polite: ends by itself on it; stubborn: ignores it; family: the same, with a child that
//     ignores it (the leader takes it along, unless it is killed itself).
//   job pulse JOURNAL CPU
//     "stall NS LENGTH" whenever this processor has not let it run for 20 ms. It ends with its parent.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t k_msec = 1000000;
static const int64_t k_stall = 20 * k_msec;

static int journal;
static const char *who, *name, *mode, *fence;
static volatile sig_atomic_t asked;

static void on_term(int signal) {
  (void)signal;
  asked = 1;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1000 * k_msec + time.tv_nsec;
}

static void rest(void) {
  const struct timespec pause = {0, 2 * k_msec};
  nanosleep(&pause, NULL);
}

static void put(const char *line, int size) {
  if (write(journal, line, (size_t)size) != size) _exit(99);
}

static void note(const char *what) {
  char line[256];
  put(line, snprintf(line, sizeof line, "%s %020" PRId64 " %s %s %s %s %d\n", what, now(), who, name, mode, fence, getpid()));
}

// Whoever starts klock with a limit means klock.
static void lift(int resource) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(resource, &limit);
}

static void live(int64_t until) {
  while (!asked && now() < until) {
    rest();
    note("alive");
  }
}

static int hold(char **words) {
  who = words[0], name = words[1], mode = words[2];
  fence = getenv("KLOCK_FENCE");
  if (fence == NULL || *fence == '\0') fence = "0";
  note("begin");
  const int64_t until = now() + atol(words[3]) * k_msec;
  const char *kind = words[4];
  signal(SIGTERM, SIG_DFL);
  if (strcmp(kind, "polite") == 0) signal(SIGTERM, on_term);
  if (strcmp(kind, "stubborn") == 0) signal(SIGTERM, SIG_IGN);
  const pid_t child = strcmp(kind, "family") == 0 ? fork() : 0;
  if (child == 0 && strcmp(kind, "family") == 0) {
    signal(SIGTERM, SIG_IGN);
    live(until);
    _exit(0);
  }
  live(until);
  if (child > 0) waitpid(child, NULL, 0);
  note("end");
  return 42;
}

static int pulse(const char *cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)atoi(cpu), &one);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
  for (int64_t last = now();;) {
    rest();
    const int64_t here = now();
    char line[80];
    if (here - last > k_stall)
      put(line, snprintf(line, sizeof line, "stall %020" PRId64 " %" PRId64 "\n", here, here - last));
    last = here;
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 64;
  lift(RLIMIT_FSIZE);
  lift(RLIMIT_NOFILE);
  journal = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (journal < 0) return 99;
  if (strcmp(argv[1], "pulse") == 0) return pulse(argv[3]);
  return argc == 8 ? hold(argv + 3) : 64;
}
