// A library for LD_PRELOAD that makes a daemon's disk and clock fail as a test says. The environment
// variable ASSAY_FAULTS names a file of two numbers of 8 bytes that both map: what the disk does, and
// by how many seconds the system's clock is wrong.
//
//   0  nothing                       3  every write and sync takes a tenth of a second
//   1  no space is left (ENOSPC)     2  input and output fail (EIO)
//
// Only files whose path has "assay.db" in it are concerned.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct faults {
  int64_t disk;
  int64_t clock_seconds;
};

static volatile struct faults* faults_of_test(void) {
  static volatile struct faults* mapped = NULL;
  static int looked = 0;
  if (looked) return mapped;
  const char* path = getenv("ASSAY_FAULTS");
  int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  void* page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) mapped = page;
  looked = 1;
  return mapped;
}

static int of_store(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return strstr(path, "assay.db") != NULL;
}

// Whether the call fails; errno is set then.
static int fails(int fd) {
  volatile struct faults* now = faults_of_test();
  if (now == NULL || now->disk == 0 || !of_store(fd)) return 0;
  if (now->disk == 3) {
    struct timespec tenth = {0, 100000000};
    nanosleep(&tenth, NULL);
    return 0;
  }
  errno = now->disk == 1 ? ENOSPC : EIO;
  return 1;
}

// The function of the C library that has this one's name.
#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  return fails(fd) ? -1 : real(fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  REAL(pwrite);
  return fails(fd) ? -1 : real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  REAL(pwrite64);
  return fails(fd) ? -1 : real(fd, data, size, at);
}

int fsync(int fd) {
  REAL(fsync);
  return fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  return fails(fd) ? -1 : real(fd);
}

int fallocate(int fd, int mode, off_t at, off_t size) {
  REAL(fallocate);
  return fails(fd) ? -1 : real(fd, mode, at, size);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  REAL(clock_gettime);
  int done = real(clock, time);
  volatile struct faults* now = faults_of_test();
  if (done == 0 && clock == CLOCK_REALTIME && now != NULL) time->tv_sec += now->clock_seconds;
  return done;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec time;
  int done = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return done;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
