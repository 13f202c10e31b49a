/* libmock.so: somebody else's function with the name of a driver function. */
int cuLaunchKernel(void);
int cuLaunchKernel(void) { return 4711; }
