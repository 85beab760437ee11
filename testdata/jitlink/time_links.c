/* Times links through two libraries of libnvJitLink's interface, loaded into one process, in turns.
 *
 * usage: time_links THEIRS OURS ARCH ROUNDS INPUT...
 * Inputs are cubins; with names in .ptx or .ltoir PTX and LTO-IR, for which the links have -lto.
 * Prints the medians in microseconds and the median of the ratios ours/theirs: wall time and CPU time of the process and of
 * programs that it ran, from nvJitLinkCreate to nvJitLinkDestroy. "-" for THEIRS: only OURS, for a profiler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "nvJitLink.h"

struct library {
  __typeof__(&nvJitLinkCreate) create;
  __typeof__(&nvJitLinkDestroy) destroy;
  __typeof__(&nvJitLinkAddData) add_data;
  __typeof__(&nvJitLinkComplete) complete;
  __typeof__(&nvJitLinkGetLinkedCubinSize) size;
  __typeof__(&nvJitLinkGetLinkedCubin) cubin;
};

struct input {
  const char *name;
  nvJitLinkInputType kind;
  char *bytes;
  size_t size;
};

struct times {
  double wall, cpu;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "time_links: %s: %s\n", what, why);
  exit(1);
}

static struct library load(const char *path) {
  /* Names of one must not be found in the other. */
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!file) fail(path, dlerror());
  struct library lib;
  void **places[] = {(void **)&lib.create,   (void **)&lib.destroy, (void **)&lib.add_data,
                     (void **)&lib.complete, (void **)&lib.size,    (void **)&lib.cubin};
  const char *names[] = {"nvJitLinkCreate",   "nvJitLinkDestroy",            "nvJitLinkAddData",
                         "nvJitLinkComplete", "nvJitLinkGetLinkedCubinSize", "nvJitLinkGetLinkedCubin"};
  for (int i = 0; i < 6; i++)
    if (!(*places[i] = dlsym(file, names[i]))) fail(names[i], "missing");
  return lib;
}

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static double now_of_cpu(void) {
  struct rusage ended;
  getrusage(RUSAGE_CHILDREN, &ended);
  struct timeval user = ended.ru_utime, system = ended.ru_stime;
  return now(CLOCK_PROCESS_CPUTIME_ID) + (user.tv_sec + system.tv_sec) * 1e6 + user.tv_usec + system.tv_usec;
}

static nvJitLinkInputType kind_of(const char *name) {
  const char *end = strrchr(name, '.');
  if (end && !strcmp(end, ".ptx")) return NVJITLINK_INPUT_PTX;
  return end && !strcmp(end, ".ltoir") ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_CUBIN;
}

static void check(int code, const char *what) {
  char text[16];
  snprintf(text, sizeof text, "%d", code);
  if (code) fail(what, text);
}

static struct times one_link(const struct library *lib, const char *arch, const struct input *inputs, int count) {
  struct times begin = {now(CLOCK_MONOTONIC), now_of_cpu()};
  const char *options[] = {arch, "-lto"};
  int used = 1;
  for (int i = 0; i < count; i++)
    if (inputs[i].kind == NVJITLINK_INPUT_LTOIR) used = 2;
  nvJitLinkHandle handle;
  check(lib->create(&handle, used, options), "nvJitLinkCreate");
  for (int i = 0; i < count; i++)
    check(lib->add_data(handle, inputs[i].kind, inputs[i].bytes, inputs[i].size, inputs[i].name), "nvJitLinkAddData");
  check(lib->complete(handle), "nvJitLinkComplete");
  size_t size;
  check(lib->size(handle, &size), "nvJitLinkGetLinkedCubinSize");
  char *image = malloc(size);
  check(lib->cubin(handle, image), "nvJitLinkGetLinkedCubin");
  check(lib->destroy(&handle), "nvJitLinkDestroy");
  free(image);
  return (struct times){now(CLOCK_MONOTONIC) - begin.wall, now_of_cpu() - begin.cpu};
}

static int by_value(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

static double median(double *values, int count) {
  qsort(values, count, sizeof *values, by_value);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void tell(const char *what, double *theirs, double *ours, int rounds) {
  double *ratios = calloc(rounds, sizeof *ratios);
  for (int i = 0; i < rounds; i++) ratios[i] = ours[i] / (theirs[i] > 0.001 ? theirs[i] : 0.001);
  double ratio = median(ratios, rounds);
  printf("%s %.1f %.1f %.3f\n", what, median(theirs, rounds), median(ours, rounds), ratio);
  free(ratios);
}

int main(int argc, char **argv) {
  if (argc < 6) fail("usage", "time_links THEIRS OURS ARCH ROUNDS INPUT...");
  int both = strcmp(argv[1], "-"), rounds = atoi(argv[4]), count = argc - 5;
  struct library libraries[2] = {load(argv[both ? 1 : 2]), load(argv[2])};
  char arch[64];
  snprintf(arch, sizeof arch, "-arch=%s", argv[3]);
  struct input *inputs = calloc(count, sizeof *inputs);
  for (int i = 0; i < count; i++) {
    FILE *file = fopen(argv[5 + i], "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(argv[5 + i], "cannot be read");
    inputs[i] = (struct input){argv[5 + i], kind_of(argv[5 + i]), NULL, ftell(file)};
    inputs[i].bytes = malloc(inputs[i].size);
    rewind(file);
    if (fread(inputs[i].bytes, 1, inputs[i].size, file) != inputs[i].size) fail(argv[5 + i], "cannot be read");
    fclose(file);
  }
  double *times[4];
  for (int i = 0; i < 4; i++) times[i] = calloc(rounds, sizeof **times);
  /* What is set up once is not counted. */
  for (int turn = 0; turn < 4; turn++) one_link(&libraries[turn % 2], arch, inputs, count);
  for (int round = 0; round < rounds; round++)
    for (int turn = 0; turn < 2; turn++) {
      int which = (round + turn) % 2;
      struct times taken = one_link(&libraries[which], arch, inputs, count);
      times[which][round] = taken.wall;
      times[2 + which][round] = taken.cpu;
    }
  tell("wall", times[0], times[1], rounds);
  tell("cpu", times[2], times[3], rounds);
  return 0;
}
