/* A CUDA driver with a device of sm_90 and no functions: cuda.core asks which release of the driver
 * there is before it chooses a linker. Machines without a GPU have no driver that could say. */
#include <stdint.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 801, MAJOR = 75, MINOR = 76 };

int cuInit(unsigned flags) { return flags == 0 ? OK : NOT_SUPPORTED; }
int cuDriverGetVersion(int *version) { return *version = 13050, OK; }
int cuDeviceGetCount(int *count) { return *count = 1, OK; }
int cuDeviceGet(int *device, int number) { return *device = number, OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == MAJOR ? 9 : attribute == MINOR ? 0 : 1;
    return device == 0 ? OK : NOT_SUPPORTED;
}
static int nothing(void) { return NOT_SUPPORTED; }

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found) {
    static const struct { const char *name; void *function; } all[] = {
        {"cuInit", cuInit},           {"cuDriverGetVersion", cuDriverGetVersion},
        {"cuDeviceGet", cuDeviceGet}, {"cuDeviceGetCount", cuDeviceGetCount},
        {"cuDeviceGetAttribute", cuDeviceGetAttribute}, {"cuGetProcAddress", cuGetProcAddress_v2},
    };
    *function = nothing;
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++)
        if (strcmp(name, all[at].name) == 0) *function = all[at].function;
    if (found) *found = 0;
    return version < 0 || flags > 16 ? NOT_SUPPORTED : OK;
}
