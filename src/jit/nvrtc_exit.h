// nvrtc_exit.h - a program ends while NVRTC compiles, without having closed its databases.
//
//     if (!nvrtc_enter()) return fail(...);                       // the program ends
//     ...                                                         // compile
//     nvrtc_leave();
//
// NVRTC's destructors would run beside the compile, which would crash or never end.  So what ends the program waits for
// the compile, for ten seconds at most, and no new one is begun.

#ifndef WEFT_NVRTC_EXIT_H
#define WEFT_NVRTC_EXIT_H

#include "base/base.h"

// Called by the main thread, once is enough: its end is then seen before any destructor of a library runs.  Does
// nothing on other threads.  Where the main thread ends by pthread_exit and the program goes on, nothing is compiled
// for some twenty seconds.
void nvrtc_watch_main_thread(void);

// Around each compile, any thread.  False: the program ends; do not compile, do not leave.
bool nvrtc_enter(void);
void nvrtc_leave(void);

// Around opening the library.
bool nvrtc_begin_opening(void);
void nvrtc_end_opening(bool has_begun);

#endif
