/* Stands in for the CUDA driver, so that cuDNN can validate, rank, compile and size plans for a GPU that is not there.
   Nothing can be run with it. */
extern void *dlsym(void *, const char *);
#define NONE(n) int n(void) { return 100; }
#define HANDLE(n) int n(void **p) { if (p) *p = (void *)8; return 0; }
#define FINE(n) int n(void) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorString(int e, const char **s) { *s = "no device"; return 0; }
int cuGetErrorName(int e, const char **s) { *s = "NO_DEVICE"; return 0; }
NONE(nothing) NONE(cuInit) NONE(cuDeviceGetCount) NONE(cuDeviceGet) NONE(cuGetExportTable) NONE(cuCtxGetCurrent)
NONE(cuCtxGetLimit) NONE(cuCtxPopCurrent) NONE(cuCtxPushCurrent) NONE(cuLaunchKernel) NONE(cuLaunchKernelEx)
NONE(cuLaunchCooperativeKernel) NONE(cuStreamGetCtx) NONE(cuTensorMapEncodeIm2col) NONE(cuTensorMapEncodeTiled)
NONE(cuKernelGetAttribute) NONE(cuFuncGetAttribute)
HANDLE(cuLibraryLoadData) HANDLE(cuLibraryLoadFromFile) HANDLE(cuLibraryGetKernel) HANDLE(cuKernelGetFunction)
HANDLE(cuModuleLoadData) HANDLE(cuModuleGetFunction) HANDLE(cuLinkAddData) HANDLE(cuLinkComplete) HANDLE(cuLinkCreate)
HANDLE(cuLinkDestroy) HANDLE(cuOccupancyMaxPotentialClusterSize)
FINE(cuLibraryUnload) FINE(cuModuleUnload) FINE(cuKernelSetAttribute) FINE(cuFuncSetAttribute)
int cuGetProcAddress_v2(const char *name, void **p, int version, unsigned long flags, int *status) {
    *p = dlsym((void *)0, name);
    if (!*p) *p = (void *)nothing;
    if (status) *status = 0;
    return 0;
}
int cuGetProcAddress(const char *name, void **p, int version, unsigned long flags) {
    return cuGetProcAddress_v2(name, p, version, flags, (int *)0);
}
