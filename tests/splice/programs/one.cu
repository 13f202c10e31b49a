/* Declares one service only. */
#include <cstdlib>
__global__ void k(void **p) { free(p[0]); }
int main() { return 0; }
