/* libnvJitLink of culd: links device code in the process that asks for it.
 *
 * The functions, kinds of inputs and results have the names and numbers of NVIDIA's libnvJitLink 13, so that a program
 * compiled with either header runs with either library. docs/JITLINK.md of culd says what each does.
 *
 * A handle may be used from any thread, by one call at a time; calls for one handle wait for each other.
 */
#ifndef NVJITLINK_H
#define NVJITLINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  NVJITLINK_SUCCESS = 0,
  NVJITLINK_ERROR_UNRECOGNIZED_OPTION = 1,  /* the error log names it */
  NVJITLINK_ERROR_MISSING_ARCH = 2,         /* there is no -arch= */
  NVJITLINK_ERROR_INVALID_INPUT = 3,        /* no code for the target, damaged, or clashing with another input */
  NVJITLINK_ERROR_PTX_COMPILE = 4,          /* the error log has what ptxas said */
  NVJITLINK_ERROR_NVVM_COMPILE = 5,         /* LTO-IR could not be compiled */
  NVJITLINK_ERROR_INTERNAL = 6,             /* undefined references; a call at the wrong time */
  NVJITLINK_ERROR_THREADPOOL = 7,
  NVJITLINK_ERROR_UNRECOGNIZED_INPUT = 8,   /* NVJITLINK_INPUT_ANY that looks like nothing known */
  NVJITLINK_ERROR_FINALIZE = 9,
  NVJITLINK_ERROR_NULL_INPUT = 10,          /* a null pointer, or a handle that is none */
  NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS = 11,
  NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12,
  NVJITLINK_ERROR_ARCH_MISMATCH = 13,
  NVJITLINK_ERROR_OUTDATED_LIBRARY = 14,
  NVJITLINK_ERROR_MISSING_FATBIN = 15,
  NVJITLINK_ERROR_UNRECOGNIZED_ARCH = 16,
  NVJITLINK_ERROR_UNSUPPORTED_ARCH = 17,
  NVJITLINK_ERROR_LTO_NOT_ENABLED = 18      /* LTO-IR without -lto */
} nvJitLinkResult;

typedef enum {
  NVJITLINK_INPUT_NONE = 0,
  NVJITLINK_INPUT_CUBIN = 1,
  NVJITLINK_INPUT_PTX = 2,
  NVJITLINK_INPUT_LTOIR = 3,
  NVJITLINK_INPUT_FATBIN = 4,
  NVJITLINK_INPUT_OBJECT = 5,
  NVJITLINK_INPUT_LIBRARY = 6,
  NVJITLINK_INPUT_INDEX = 7,   /* an index file of unified functions and variables */
  NVJITLINK_INPUT_ANY = 10     /* what it looks like */
} nvJitLinkInputType;

typedef struct nvJitLink *nvJitLinkHandle;

/* Makes a handle. One that is refused for its options has an error log, and has to be destroyed too. */
nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t numOptions, const char **options);

/* Gives a handle back and sets it to null. */
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle);

/* Adds an input. Its bytes are copied; the name is for messages and may be null. */
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                 const void *data, size_t size, const char *name);

/* Adds the input at a path. */
nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                 const char *fileName);

/* Links what was added. */
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle);

/* What came of it: the size in bytes, and a copy in a buffer of that size. */
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin);
nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char *ptx);
nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void *ltoir);

/* The logs. A size counts the NUL at the end, and is 0 for an empty log. */
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);
nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t *size);
nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char *log);

/* The release whose interface this is: 13.0. */
nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor);

#ifdef __cplusplus
}
#endif

#endif
