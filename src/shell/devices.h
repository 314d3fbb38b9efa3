// devices.h - what kernels can run on here.

#ifndef WEFT_DEVICES_H
#define WEFT_DEVICES_H

// `weft devices [--measure] [--json] [--need-gpu]`; argv[0] is "devices".  Returns the exit status.
int devices_main(int argc, char **argv);

#endif
