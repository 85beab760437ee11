/* The one function of Windows 10 that Rust's standard library imports and wine 8 lacks. Only for tests by wine. */
typedef unsigned char (*Random)(void *bytes, unsigned long size);
__declspec(dllimport) void *__stdcall LoadLibraryA(const char *name);
__declspec(dllimport) Random __stdcall GetProcAddress(void *library, const char *name);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *bytes, unsigned long long size) {
    Random random = GetProcAddress(LoadLibraryA("advapi32.dll"), "SystemFunction036");
    return random && random(bytes, (unsigned long)size);
}
