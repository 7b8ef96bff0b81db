// SPDX-License-Identifier: MIT
// Preloaded, it lets a program's wall clock step: by as many seconds as stand in the file KLOCK_FAULT_CLOCK (8 bytes) at
// that moment. What klock measures leases with is not touched. (libfaketime does not go together with jemalloc, which
// redis-server uses.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* step;

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("KLOCK_FAULT_CLOCK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* page = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) step = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && step != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (result != NULL) *result = exact.tv_sec;
  return exact.tv_sec;
}
