// SPDX-License-Identifier: MIT
// The commands that the tests run under klock: small, so that a thousand of them cost nothing.
//   section LOG ID MSEC   a critical section. Takes flock(2) on LOG.lock without waiting, which the kernel drops
//                         exactly when we are dead, so a second section at the same time always shows
//   together LOG ID MSEC LOCK=MODE...  likewise, for locks held as MODE: x alone, s with others, or a number of slots
//   rally ROUNDS COUNT WORD...  each round runs COUNT commands that start at once, and waits for them; %r in a word
//                         is the number of the round; ends with 1 if any of them ended with anything but 0
//   signals LOG           logs each signal it gets; ends with status 0 once LOG.stop exists
//   stamp                 prints CLOCK_MONOTONIC in ns, then sleeps
//   argv WORD...          prints its words, each followed by a NUL
//   fds                   prints the open descriptors and what they are
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// A process killed in the midst of a write leaves half a line where the file's page ends (the kernel looks for
// fatal signals there). So each line begins with a newline of its own, and ends with a mark that it is whole.
static void append(const char* path, const char* format, ...) {
  char line[256];
  va_list words;
  va_start(words, format);
  int length = vsnprintf(line, sizeof line, format, words);
  va_end(words);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, line, (size_t)length) != length) _exit(99);
  close(fd);
}

// Drops the lock exactly when we are dead.
static int try_flock(const char* path, int operation) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) _exit(99);
  if (flock(fd, operation | LOCK_NB) == 0) return 1;
  close(fd);
  return 0;
}

static int may_hold(const char* log, const char* lock, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%s", log, lock);
  if (!try_flock(path, *mode == 'x' ? LOCK_EX : LOCK_SH)) return 0;
  if (*mode == 'x' || *mode == 's') return 1;
  for (long slot = atol(mode); slot > 0; --slot) {
    snprintf(path, sizeof path, "%s.%s.%ld", log, lock, slot);
    if (try_flock(path, LOCK_EX)) return 1;
  }
  return 0;
}

static int together(const char* log, const char* id, long msec, int count, char** locks) {
  const char* fence = getenv("KLOCK_FENCE");
  for (int i = 0; i < count; ++i) {
    char* equals = strchr(locks[i], '=');
    *equals = 0;
    if (!may_hold(log, locks[i], equals + 1)) {
      append(log, "\nOVERLAP %s %lld %s %s .\n", id, now_ns(), locks[i], equals + 1);
      return 98;
    }
  }
  append(log, "\nbegin %s %lld %s .\n", id, now_ns(), fence ? fence : "-");
  struct timespec t = {msec / 1000, msec % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) {
  }
  append(log, "\nend %s %lld %s .\n", id, now_ns(), fence ? fence : "-");
  return 0;
}

static int section(const char* log, const char* id, long msec) {
  char lock[] = "lock=x";
  char* locks[] = {lock};
  return together(log, id, msec, 1, locks);
}

static void number_round(int round, char** words) {
  for (; *words; ++words) {
    char* mark = strstr(*words, "%r");
    if (!mark) continue;
    char* filled = malloc(strlen(*words) + 16);
    sprintf(filled, "%.*s%d%s", (int)(mark - *words), *words, round, mark + 2);
    *words = filled;
  }
}

static int rally(int rounds, int count, char** words) {
  int failed = 0;
  for (int round = 0; round < rounds; ++round) {
    int gate[2];
    if (pipe(gate) != 0) return 99;
    for (int i = 0; i < count; ++i) {
      pid_t pid = fork();
      if (pid < 0) return 99;
      if (pid != 0) continue;
      char byte;
      close(gate[1]);
      if (read(gate[0], &byte, 1) != 0) _exit(99);  // until the other end is closed
      close(gate[0]);
      number_round(round, words);
      execv(words[0], words);
      _exit(99);
    }
    close(gate[0]);
    close(gate[1]);
    for (int status; wait(&status) > 0;) failed |= status != 0;
  }
  return failed;
}

static int log_signals(const char* log) {
  char stop[4096];
  sigset_t all;
  const struct timespec tick = {0, 20000000};
  snprintf(stop, sizeof stop, "%s.stop", log);
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  append(log, "ready %d\n", (int)getpid());
  while (access(stop, F_OK) != 0) {
    int signal = sigtimedwait(&all, NULL, &tick);
    if (signal > 0) append(log, "signal %d\n", signal);
  }
  return 0;
}

static int show_descriptors(void) {
  DIR* directory = opendir("/proc/self/fd");
  if (!directory) return 99;
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    char target[4096] = "";
    int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(directory)) continue;
    if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) < 0) continue;
    append("/dev/fd/1", "%d %s\n", fd, target);
  }
  return 0;
}

int main(int count, char** words) {
  const char* mode = count > 1 ? words[1] : "";
  if (strcmp(mode, "section") == 0 && count == 5) return section(words[2], words[3], atol(words[4]));
  if (strcmp(mode, "together") == 0 && count > 5)
    return together(words[2], words[3], atol(words[4]), count - 5, words + 5);
  if (strcmp(mode, "rally") == 0 && count > 4) return rally(atoi(words[2]), atoi(words[3]), words + 4);
  if (strcmp(mode, "signals") == 0 && count == 3) return log_signals(words[2]);
  if (strcmp(mode, "fds") == 0) return show_descriptors();
  if (strcmp(mode, "argv") == 0) {
    for (int i = 2; i < count; ++i) fwrite(words[i], 1, strlen(words[i]) + 1, stdout);
    return 0;
  }
  if (strcmp(mode, "stamp") == 0) {
    printf("%lld\n", now_ns());
    fflush(stdout);
    sleep(1000);
    return 0;
  }
  return 2;
}
