/* The command line of nvlink with the linker of a libnvJitLink behind it, for releases of CUDA of which no nvlink can be had.
 * Use: as nvlink. LIBNVJITLINK in the environment names the library.
 *
 * Exit status: 0, or 255 for errors and 1 for a fatal one as in nvlink; 77 for what the library cannot do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANNOT = 77, FATAL = 1, ERROR = 255, MAX_WORDS = 65536 };

/* Input types of the interface. */
enum { CUBIN = 1, PTX = 2, FATBIN = 4, OBJECT = 5, LIBRARY = 6 };

static void *library;

static void *symbol(const char *name) {
  char text[64];
  /* 12.0 to 12.2 have no plain names; each release has its own and those of older ones. */
  snprintf(text, sizeof text, "__nvJitLink%s_12_0", name);
  void *found = dlsym(library, text);
  if (!found) {
    fprintf(stderr, "nvlink: no %s\n", text);
    exit(CANNOT);
  }
  return found;
}

static void *allocate(size_t size) {
  void *bytes = calloc(size + 1, 1);
  if (!bytes) exit(CANNOT);
  return bytes;
}

static char *contents(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    exit(CANNOT);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = allocate(*size);
  if (fread(bytes, 1, *size, file) != *size) exit(CANNOT);
  fclose(file);
  return bytes;
}

static int ends(const char *text, const char *tail) {
  size_t length = strlen(text), part = strlen(tail);
  return length >= part && !strcmp(text + length - part, tail);
}

static int type_of(const char *path) {
  if (ends(path, ".a")) return LIBRARY;
  if (ends(path, ".o")) return OBJECT;
  if (ends(path, ".fatbin")) return FATBIN;
  return ends(path, ".ptx") ? PTX : CUBIN;
}

/* Prints the lines of `log` as nvlink does, and notes how bad they are. The library's own lines about its functions are not
 * nvlink's. */
static void print(char *log, int *status) {
  for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
    if (!strncmp(line, "ERROR ", 6) || !strncmp(line, "Architectures prior", 19)) continue;
    if (!strncmp(line, "unrecognized option", 19)) *status = CANNOT;
    if (!strncmp(line, "error", 5) && !*status) *status = ERROR;
    if (!strncmp(line, "fatal", 5) && !*status) *status = FATAL;
    fprintf(stderr, "nvlink %s\n", line);
  }
}

int main(int argc, char **argv) {
  static const char *options[MAX_WORDS], *files[MAX_WORDS], *folders[MAX_WORDS];
  int option_count = 0, file_count = 0, folder_count = 0, status = 0;
  const char *out = NULL, *path = getenv("LIBNVJITLINK");
  if (!path || argc > MAX_WORDS) return CANNOT;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (!strcmp(word, "-o") && i + 1 < argc) {
      out = argv[++i];
    } else if (!strcmp(word, "-v") || !strcmp(word, "--verbose")) {
      options[option_count++] = "-verbose";
    } else if ((!strcmp(word, "-uidx") || !strcmp(word, "--uidx-file")) && i + 1 < argc) {
      char *joined = NULL;
      if (asprintf(&joined, "-uidx=%s", argv[++i]) < 0) return CANNOT;
      options[option_count++] = joined;
    } else if (!strncmp(word, "-L", 2)) {
      folders[folder_count++] = word + 2;
    } else if (!strncmp(word, "-l", 2) && strcmp(word, "-lto")) {
      char *file = NULL;
      for (int at = 0; at < folder_count; at++) {
        if (asprintf(&file, "%s/lib%s.a", folders[at], word + 2) < 0) return CANNOT;
        if (!access(file, R_OK)) break;
      }
      if (!file || access(file, R_OK)) return CANNOT;
      files[file_count++] = file;
    } else if (word[0] == '-') {
      options[option_count++] = word[1] == '-' ? word + 1 : word;
    } else {
      files[file_count++] = word;
    }
  }
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "nvlink: %s\n", dlerror());
    return CANNOT;
  }
  typedef void *handle_t;
  int (*create)(handle_t *, uint32_t, const char **) = symbol("Create");
  int (*add)(handle_t, int, const void *, size_t, const char *) = symbol("AddData");
  int (*complete)(handle_t) = symbol("Complete");
  int (*get_size)(handle_t, size_t *) = symbol("GetLinkedCubinSize");
  int (*get_cubin)(handle_t, void *) = symbol("GetLinkedCubin");
  int (*error_size)(handle_t, size_t *) = symbol("GetErrorLogSize");
  int (*get_errors)(handle_t, char *) = symbol("GetErrorLog");
  int (*info_size)(handle_t, size_t *) = symbol("GetInfoLogSize");
  int (*get_infos)(handle_t, char *) = symbol("GetInfoLog");

  /* Until 12.6 the linker behind it prints its lines itself. */
  FILE *printed = tmpfile();
  int terminal = dup(2);
  if (!printed || terminal < 0 || dup2(fileno(printed), 2) < 0) return CANNOT;
  handle_t handle = NULL;
  int code = create(&handle, (uint32_t)option_count, options);
  for (int i = 0; i < file_count && !code; i++) {
    size_t size;
    /* Not freed: 12.0 reads them until the end. */
    char *bytes = contents(files[i], &size);
    code = add(handle, type_of(files[i]), bytes, size, files[i]);
  }
  if (!code) code = complete(handle);
  fflush(NULL);
  dup2(terminal, 2);

  long length = ftell(printed);
  if (fseek(printed, 0, SEEK_END) || (length = ftell(printed)) < 0) return CANNOT;
  char *lines = allocate((size_t)length);
  rewind(printed);
  if (fread(lines, 1, (size_t)length, printed) != (size_t)length) return CANNOT;
  size_t size;
  if (handle && !info_size(handle, &size) && size) {
    char *log = allocate(size);
    if (!get_infos(handle, log)) print(log, &status);
  }
  print(lines, &status);
  if (handle && !error_size(handle, &size) && size) {
    char *log = allocate(size);
    if (!get_errors(handle, log)) print(log, &status);
  }
  /* A failure without a line is no verdict: nvlink says why. */
  if (status || code) return status ? status : CANNOT;

  if (!out || get_size(handle, &size)) return CANNOT;
  char *image = allocate(size);
  if (get_cubin(handle, image)) return CANNOT;
  FILE *file = fopen(out, "wb");
  if (!file || fwrite(image, 1, size, file) != size || fclose(file)) return CANNOT;
  return 0;
}
