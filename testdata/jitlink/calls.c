/* Runs the calls of a list against a libnvJitLink: see README.md. Use: calls LIBRARY LIST ARCH, in the folder with the
 * inputs; images go to the folder named by OUT in the environment. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvJitLink.h"

#define MAX_WORDS 32

/* The name of a function in the first header of the major release: RELEASE is 13_0 or 12_0. */
#define TEXT(word) #word
#define VALUE(word) TEXT(word)
#define NAME(function) "__nvJitLink" function "_" VALUE(RELEASE)

static struct {
  __typeof__(&nvJitLinkCreate) create;
  __typeof__(&nvJitLinkDestroy) destroy;
  __typeof__(&nvJitLinkAddData) add_data;
  __typeof__(&nvJitLinkAddFile) add_file;
  __typeof__(&nvJitLinkComplete) complete;
  __typeof__(&nvJitLinkGetLinkedCubinSize) cubin_size;
  __typeof__(&nvJitLinkGetLinkedCubin) cubin;
  __typeof__(&nvJitLinkGetLinkedPtxSize) ptx_size;
  __typeof__(&nvJitLinkGetLinkedPtx) ptx;
  __typeof__(&nvJitLinkGetErrorLogSize) error_size;
  __typeof__(&nvJitLinkGetErrorLog) error;
  __typeof__(&nvJitLinkGetInfoLogSize) info_size;
  __typeof__(&nvJitLinkGetInfoLog) info;
  __typeof__(&nvJitLinkVersion) version;
} lib;

static void *handle_of_library;
static nvJitLinkHandle handle;

static void *symbol(const char *name) {
  void *found = dlsym(handle_of_library, name);
  if (!found) {
    fprintf(stderr, "calls: no %s\n", name);
    exit(2);
  }
  return found;
}

static void load(const char *path) {
  handle_of_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle_of_library) {
    fprintf(stderr, "calls: %s\n", dlerror());
    exit(2);
  }
  /* As a program does that was compiled with NVIDIA's header of 13.0, or 12.0. */
  *(void **)&lib.create = symbol(NAME("Create"));
  *(void **)&lib.destroy = symbol(NAME("Destroy"));
  *(void **)&lib.add_data = symbol(NAME("AddData"));
  *(void **)&lib.add_file = symbol(NAME("AddFile"));
  *(void **)&lib.complete = symbol(NAME("Complete"));
  *(void **)&lib.cubin_size = symbol(NAME("GetLinkedCubinSize"));
  *(void **)&lib.cubin = symbol(NAME("GetLinkedCubin"));
  *(void **)&lib.ptx_size = symbol(NAME("GetLinkedPtxSize"));
  *(void **)&lib.ptx = symbol(NAME("GetLinkedPtx"));
  *(void **)&lib.error_size = symbol(NAME("GetErrorLogSize"));
  *(void **)&lib.error = symbol(NAME("GetErrorLog"));
  *(void **)&lib.info_size = symbol(NAME("GetInfoLogSize"));
  *(void **)&lib.info = symbol(NAME("GetInfoLog"));
  *(void **)&lib.version = symbol("nvJitLinkVersion");
}

static char *contents(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *bytes = NULL;
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    exit(2);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  /* NVIDIA's library takes PTX for something else if what lies behind it is not NUL. */
  bytes = calloc(*size + 1, 1);
  if (fread(bytes, 1, *size, file) != *size) {
    perror(path);
    exit(2);
  }
  fclose(file);
  return bytes;
}

static void result(const char *what, const char *name, __typeof__(&nvJitLinkGetLinkedCubinSize) size_of,
                   nvJitLinkResult (*get)(nvJitLinkHandle, void *)) {
  size_t size = 0;
  int code = size_of(handle, &size);
  if (code) {
    printf("%s: %d\n", what, code);
    return;
  }
  char *bytes = malloc(size + 1);
  code = get(handle, bytes);
  printf("%s: 0, %zu bytes, %d\n", what, size, code);
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s", getenv("OUT"), name, what);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) {
    perror(path);
    exit(2);
  }
  free(bytes);
}

static void log_of(const char *what, __typeof__(&nvJitLinkGetErrorLogSize) size_of,
                   __typeof__(&nvJitLinkGetErrorLog) get) {
  size_t size = 0;
  int code = size_of(handle, &size);
  char *text = calloc(size + 2, 1);
  int copied = get(handle, text);
  printf("%s: %d, %d, %zu bytes\n%s", what, code, copied, size, text);
  free(text);
}

static void nulls(void) {
  size_t size = 7;
  char byte = 'x';
  unsigned number;
  printf("null: create %d destroy %d", lib.create(NULL, 0, NULL), lib.destroy(NULL));
  printf(" complete %d data %d file %d", lib.complete(NULL), lib.add_data(NULL, 1, &byte, 1, "n"),
         lib.add_file(NULL, 1, "n"));
  printf(" sizes %d %d %d %d", lib.cubin_size(NULL, &size), lib.ptx_size(NULL, &size),
         lib.error_size(NULL, &size), lib.info_size(NULL, &size));
  printf(" of a handle %d %d %d %d", lib.cubin_size(handle, NULL), lib.ptx_size(handle, NULL),
         lib.error_size(handle, NULL), lib.info_size(handle, NULL));
  printf(" results %d %d %d %d", lib.cubin(handle, NULL), lib.ptx(handle, NULL),
         lib.error(handle, NULL), lib.info(handle, NULL));
  printf(" before the end %d %d", lib.cubin_size(handle, &size), lib.ptx_size(handle, &size));
  printf(" version %d %zu\n", lib.version(&number, NULL), size);
}

static void call(char **words, int count) {
  const char *name = count > 2 && strcmp(words[2], "-") ? words[2] : NULL;
  size_t size;
  if (!strcmp(words[0], "create")) {
    /* An option that only the library under test has. */
    char *own = getenv("OWN_OPTION");
    if (own) words[count++] = own;
    printf("create: %d\n", lib.create(&handle, count - 1, (const char **)words + 1));
  } else if (!strcmp(words[0], "data") || !strcmp(words[0], "cut")) {
    char *bytes = contents(words[3], &size);
    if (count > 4) size = strtoul(words[4], NULL, 10);
    printf("%s: %d\n", words[0], lib.add_data(handle, atoi(words[1]), bytes, size, name));
    /* The library has its own copy. */
    memset(bytes, 0, size);
    free(bytes);
  } else if (!strcmp(words[0], "text")) {
    size_t length = strlen(words[3]);
    char *bytes = malloc(100 * length);
    for (int i = 0; i < 100; i++) memcpy(bytes + i * length, words[3], length);
    printf("text: %d\n", lib.add_data(handle, atoi(words[1]), bytes, 100 * length, name));
    free(bytes);
  } else if (!strcmp(words[0], "file")) {
    printf("file: %d\n", lib.add_file(handle, atoi(words[1]), words[2]));
  } else if (!strcmp(words[0], "complete")) {
    printf("complete: %d\n", lib.complete(handle));
  } else if (!strcmp(words[0], "cubin")) {
    result("cubin", words[1], lib.cubin_size, lib.cubin);
  } else if (!strcmp(words[0], "ptx")) {
    result("ptx", words[1], lib.ptx_size, (nvJitLinkResult(*)(nvJitLinkHandle, void *))lib.ptx);
  } else if (!strcmp(words[0], "logs")) {
    log_of("errors", lib.error_size, lib.error);
    log_of("infos", lib.info_size, lib.info);
  } else if (!strcmp(words[0], "null")) {
    nulls();
  } else if (!strcmp(words[0], "destroy")) {
    int code = lib.destroy(&handle);
    int is_null = handle == NULL;
    printf("destroy: %d %d, again %d\n", code, is_null, lib.destroy(&handle));
  } else {
    fprintf(stderr, "calls: what is %s?\n", words[0]);
    exit(2);
  }
}

/* The number of the architecture for each '@'. */
static char *with_arch(const char *word, const char *arch) {
  char *out = calloc(strlen(word) * 8 + 1, 1);
  for (; *word; word++) strncat(out, *word == '@' ? arch : word, *word == '@' ? strlen(arch) : 1);
  return out;
}

int main(int argc, char **argv) {
  char line[4096];
  unsigned major, minor;
  if (argc != 4) return 2;
  load(argv[1]);
  FILE *list = fopen(argv[2], "r");
  if (!list) return 2;
  printf("version: %d", lib.version(&major, &minor));
  printf(" %u.%u\n", major, minor);
  while (fgets(line, sizeof line, list)) {
    /* One more: OWN_OPTION. */
    char *words[MAX_WORDS + 1];
    int count = 0;
    line[strcspn(line, "\n")] = 0;
    if (line[0] == '=') {
      printf("%s\n", line);
      fflush(stdout);
      continue;
    }
    for (char *word = strtok(line, " "); word && count < MAX_WORDS; word = strtok(NULL, " "))
      words[count++] = with_arch(word, argv[3]);
    if (count) call(words, count);
    /* Nothing is freed: NVIDIA's library keeps no copy of names. */
    fflush(stdout);
  }
  return 0;
}
