// tcc_in_library.c - libtcc inside a shared library.
//
// Debian's libtcc.a for x86-64 is code for programs: it reaches three variables of the C library as if they lay beside
// it, which the linker refuses in a shared library.  So these do lie beside it there: --wrap (Makefile) makes every use
// of `stdout` one of __wrap_stdout.  Linked into libweft.so and the fake driver of the tests, and into nothing else.

#include <stdio.h>

extern FILE *__real_stdout, *__real_stderr;
extern char **__real_environ;

FILE  *__wrap_stdout, *__wrap_stderr;
char **__wrap_environ;

__attribute__((constructor)) static void copy_variables(void)
{
    __wrap_stdout = __real_stdout;
    __wrap_stderr = __real_stderr;
    __wrap_environ = __real_environ;
}
