// target_csv.c - files of CSV and of PostgreSQL's text format.  The first byte of an input chooses the options.

#define _GNU_SOURCE                                         // memfd_create

#include "copy_target.h"

static CopyOptions options_of(uint8_t choice)
{
    CopyOptions options = { .quote = '"', .escape = '"', .csv = choice & 1, .header = choice & 2,
                            .ignores_errors = choice & 4, .trailing_delimiter = choice & 8 };
    options.delimiter = choice & 16 ? '|' : options.csv ? ',' : '\t';
    options.null_text = choice & 32 ? "null" : options.csv ? "" : "\\N";
    if (choice & 64) options.escape = '\\', options.quote = '\'';
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    copy_target_begin();
    if (size == 0 || size > COPY_INPUT_MOST) return 0;
    const CopyOptions options = options_of(data[0]);
    const int fd = file_of(data + 1, size - 1);
    read_both_ways(fd, data[0] & 128 ? "narrow" : "wide", &options);
    guess_it(fd, "csv");
    close(fd);
    return 0;
}
