// card_int.h - a GPU under a flow: its memory, the code of its operators, the kernel that stays on it.
//
//     TRY(card_open(0, &card, err));                       // cuda:0
//     TRY(card_add_text(card, text, &code, err));          // NVRTC, if the text is new; the kernel may run meanwhile
//     TRY(card_load(card, err));                           // the kernel is away
//     TRY(card_launch(card, n_operators, err));
//     ... card->posted, card->said: the words of kernel/flow_args.h
//     TRY(card_send_away(card, time_ms, err));             // at a round boundary
//
// Calls of the driver that allocate, free or load may wait for all kernels of the device, so none of them is made while
// ours stays: memory is taken and given back between two launches, and a thread that needs that sends the kernel away
// first.
// It goes on from where it was with the next launch.
//
// card->lock guards the kernel's coming and going and all that follows it in the struct.  It is taken after all other
// locks of a flow, and no call here waits for anything but the kernel at the end of its round.

#ifndef WEFT_FLOW_CARD_INT_H
#define WEFT_FLOW_CARD_INT_H

#include "device/cuda_driver.h"
#include "flow/flow_int.h"
#include "jit/nvrtc.h"
#include "kernel/flow.h"
#include "kernel/flow_pages.h"
#include "kernel/flow_args.h"

enum { CARD_TEXTS_MOST = 256, CARD_THREADS = 512, CARD_LEAVE_MS = 1000 };

typedef struct FlowCard {
    const CudaDriver *cu;
    int               number;
    char              name[16];        // "cuda:0"
    CuDevice          handle;
    CuContext         context;
    int               major, minor, n_multiprocessors;
    bool              is_managed;      // frames are managed memory
    Cubins           *cubins;
    pthread_mutex_t   code_lock;       // guards texts and cubin; not held with the lock below
    char             *texts[CARD_TEXTS_MOST];
    int               n_texts, n_built;
    Text              cubin;           // of the first n_built texts
    bool              is_new;          // the cubin was not loaded yet
    FlowArgs         *args;            // mapped, as the next two
    FlowPosted       *posted;
    FlowSaid         *said;
    CuAddress         mirror;
    pthread_mutex_t   lock;            // guards all that follows
    CuStream          stream, copies;
    CuEvent           ended;           // of the newest launch
    CuModule          module;
    CuFunction        function;
    int               n_blocks;        // that are resident together, and launched
    u64               n_launches;
    bool              is_running;      // as far as is known
    bool              is_settled;      // the driver says, too, that the last launch has ended
    bool              is_lost;         // a call said that no other will succeed
    Error             lost;            // what it said
    i64               n_left_idle, n_left_asked, n_left_turn;
} FlowCard;

// What a thread had before it entered; it leaves with that.
typedef struct CardVisit { CuContext before; bool has_changed; } CardVisit;

weft_status card_open(int number, FlowCard **out, Error *err);
void        card_close(FlowCard *card);                     // no kernel runs; NULL is fine
// The words for a call's RESULT, with the card's name; remembers that the card is lost.  CALL is "cuMemAlloc".
weft_status card_said(FlowCard *card, CuResult result, const char *call, Error *err);
#define CARD_TRY(card, field, arguments, err) TRY(card_said(card, (card)->cu->field arguments, "cu" #field, err))
weft_status card_check(FlowCard *card, Error *err);         // fails when the card is lost; without the lock
// Around every use of the driver by a thread, with the lock once the card is used by several; one that could not enter
// may leave.
weft_status card_enter(FlowCard *card, CardVisit *visit, Error *err);
void        card_leave(FlowCard *card, CardVisit visit);
weft_memory card_memory(FlowCard *card, weft_side side, i64 bytes_max);     // for the heap of that side
// Frames are managed memory from now on; before card_memory.  NO_DEVICE: this driver or this card has none that both
// sides can use while a kernel runs.
weft_status card_use_managed(FlowCard *card, Error *err);

// Which of the texts TEXT is; compiles all of them if it is a new one.  Any thread.
weft_status card_add_text(FlowCard *card, const char *text, u32 *code, Error *err);
// The cubin into the card, if it is a new one, and how many blocks of it are resident.
weft_status card_load(FlowCard *card, Error *err);

weft_status card_launch(FlowCard *card, int n_operators, u32 idle_ms, Error *err);
bool        card_is_running(FlowCard *card);                // looks at the word that the last block writes
weft_status card_look(FlowCard *card, Error *err);          // asks the driver: fails when the kernel has failed
weft_status card_send_away(FlowCard *card, int time_ms, Error *err);        // NOT_READY: it did not leave in time
// Pinned and mapped, zeroed; or device memory, zeroed.  The kernel is away.
weft_status card_take_mapped(FlowCard *card, size_t bytes, void **out, Error *err);
weft_status card_take_device(FlowCard *card, size_t bytes, CuAddress *out, Error *err);
void        card_give_mapped(FlowCard *card, void *memory);
void        card_give_device(FlowCard *card, CuAddress address);
weft_status card_copy_in(FlowCard *card, CuAddress to, const void *from, size_t bytes, Error *err);
weft_status card_copy_out(FlowCard *card, void *to, CuAddress from, size_t bytes, Error *err);  // the kernel may run
weft_status card_clear(FlowCard *card, CuAddress to, size_t bytes, Error *err);

#endif
