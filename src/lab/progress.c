// progress.c - how often an experiment runs, and how far it is.

#include "lab/lab_int.h"

int lab_runs(const Lab *lab, int paper_runs)
{
    return lab->options.runs ? lab->options.runs : paper_runs;
}

void lab_progress(Lab *lab, const char *what, i64 done, i64 total)
{
    enum { PAUSE_MS = 200 };
    const double now_ms = time_now_ms();
    if (!lab->options.progress || !lab->options.progress_is_terminal || now_ms - lab->progress_ms < PAUSE_MS)
        return;
    lab->progress_ms = now_ms;
    fprintf(lab->options.progress, "\r\033[K%s: %s, %lld of %lld", lab->experiment, what, (long long)done,
            (long long)total);
    fflush(lab->options.progress);
}
