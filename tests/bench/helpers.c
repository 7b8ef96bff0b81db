// SPDX-License-Identifier: MIT
// What bench.py needs in C, so that the yardstick costs nothing.
//   helpers time COUNT CMD...          spawns and reaps CMD that often, silently; prints the wall time of each in ns
//   helpers loop SECONDS CMD...        runs CMD again and again; prints how often it ended with 0
//   helpers mark LOG ID [USEC]         a critical section: appends "begin ID ns", sleeps, appends "end ID ns"
//   helpers hold LOG ID FIFO           the same, until nobody has FIFO open for writing any more
//   helpers local FILE CMD...          the floor of a local lock: open, flock, spawn, wait
//   helpers redis PORT KEY CMD...      the floor of a Redis lock: two round trips around a spawned command
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int run(char** words, const posix_spawn_file_actions_t* actions) {
  pid_t pid;
  int status = 0;
  if (posix_spawnp(&pid, words[0], actions, NULL, words, environ) != 0) return 127;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int time_runs(long count, char** words) {
  posix_spawn_file_actions_t silent;
  posix_spawn_file_actions_init(&silent);
  posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);
  for (; count > 0; --count) {
    const long long start = now_ns();
    if (run(words, &silent) != 0) return 1;
    printf("%lld\n", now_ns() - start);
  }
  return 0;
}

static int loop(double seconds, char** words) {
  const long long end = now_ns() + (long long)(seconds * 1e9);
  long done = 0;
  while (now_ns() < end) {
    if (run(words, NULL) != 0) return 1;
    ++done;
  }
  printf("%ld\n", done);
  return 0;
}

static int note(int fd, const char* what, const char* id) {
  char line[200];
  const int length = snprintf(line, sizeof line, "%s %s %lld\n", what, id, now_ns());
  return write(fd, line, (size_t)length) == length;
}

static int open_log(const char* path) {
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static int mark(const char* path, const char* id, long usec) {
  const int log = open_log(path);
  if (log < 0 || !note(log, "begin", id)) return 1;
  if (usec > 0) {
    const struct timespec t = {usec / 1000000, usec % 1000000 * 1000};
    nanosleep(&t, NULL);
  }
  return note(log, "end", id) ? 0 : 1;
}

static int hold(const char* path, const char* id, const char* fifo) {
  // O_NONBLOCK: without it open() would wait for a writer who has gone already.
  const int log = open_log(path), gate = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char byte;
  if (log < 0 || gate < 0 || fcntl(gate, F_SETFL, 0) != 0 || !note(log, "begin", id)) return 1;
  if (read(gate, &byte, 1) != 0) return 1;
  return note(log, "end", id) ? 0 : 1;
}

static int local_floor(const char* path, char** words) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || flock(fd, LOCK_EX) != 0) return 111;
  return run(words, NULL);
}

// One request, one reply; the replies of the two commands fit into one segment.
static int ask(int fd, const char* request, const char* expected) {
  char reply[200];
  const size_t size = strlen(request);
  if (write(fd, request, size) != (ssize_t)size) return 0;
  return read(fd, reply, sizeof reply) > 0 && strncmp(reply, expected, strlen(expected)) == 0;
}

static int redis_floor(int port, const char* key, char** words) {
  static const char release[] = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  unsigned char bits[16];
  char token[33], request[600];
  if (connect(fd, (struct sockaddr*)&address, sizeof address) != 0 || getrandom(bits, 16, 0) != 16) return 111;
  for (int i = 0; i < 16; ++i) snprintf(token + 2 * i, 3, "%02x", bits[i]);
  snprintf(request, sizeof request, "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n15000\r\n", strlen(key),
           key, token);
  if (!ask(fd, request, "+OK")) return 75;
  const int status = run(words, NULL);
  snprintf(request, sizeof request, "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$32\r\n%s\r\n", strlen(release), release,
           strlen(key), key, token);
  return ask(fd, request, ":1") ? status : 112;
}

int main(int count, char** words) {
  const char* mode = count > 2 ? words[1] : "";
  if (strcmp(mode, "mark") == 0 && count >= 4) return mark(words[2], words[3], count > 4 ? atol(words[4]) : 0);
  if (strcmp(mode, "hold") == 0 && count == 5) return hold(words[2], words[3], words[4]);
  if (strcmp(mode, "time") == 0 && count > 3) return time_runs(atol(words[2]), words + 3);
  if (strcmp(mode, "loop") == 0 && count > 3) return loop(atof(words[2]), words + 3);
  if (strcmp(mode, "local") == 0 && count > 3) return local_floor(words[2], words + 3);
  if (strcmp(mode, "redis") == 0 && count > 4) return redis_floor(atoi(words[2]), words[3], words + 4);
  return 2;
}
