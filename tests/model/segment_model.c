/* Segments (segment.h) under the explorer. Sizes: config.sh. */
#include "world.h"

#define C mm_class_of(MM_SEGMENT_BYTES / 2)      /* 2 blocks to a segment */
#define D mm_class_of(MM_SEGMENT_BYTES / 4)      /* 4 */
#define E mm_class_of(MM_SEGMENT_BYTES / 2 + MM_SEGMENT_BYTES / 8)

static uint32_t claim(uint32_t c) {
    const uint32_t b = mm_segment_claim_block(HEAP, c, 0);
    model_progress();
    model_note("claimed", b);
    if (b != MM_BLOCK_NONE) world_take(b, mm_class_block_granules(c));
    return b;
}
static void back(uint32_t b, uint32_t c) {
    if (b == MM_BLOCK_NONE) return;
    world_drop(b, mm_class_block_granules(c));
    mm_segment_give_back(HEAP, b / MM_SEGMENT_GRANULES, c, 1ull << (b % MM_SEGMENT_GRANULES));
    model_progress();
    model_note("gave back", b);
}

/* A segment comes back whole while another class gets it. */
static void retire_setup(void) {
    world_make(1);
    const uint32_t a = claim(C), b = claim(C);
    cell_set(0, a);
    back(b, C);
}
static void retire_back(void) { back((uint32_t)cell[0], C); }
static void retire_pass(void) { back(claim(C), C); }
static void retire_other(void) {
    uint32_t b[4];
    for (uint32_t i = 0; i < 4; i++) b[i] = claim(D);
    back(b[0], D);
    back(b[2], D);
    back(claim(D), D);
}

/* One takes the only free block while another gives one back: the segment stays listed. */
static void listed_setup(void) {
    world_make(1);
    for (uint32_t i = 0; i < 4; i++) cell_set(i, claim(D));
    back((uint32_t)cell[0], D);
}
static void listed_claim(void) { claim(D); }
static void listed_back(void) { back((uint32_t)cell[1], D); }
/* Two make a segment whole at the same time, a third gets it for a class whose blocks lie elsewhere. */
static void whole_setup(void) {
    world_make(1);
    for (uint32_t i = 0; i < 2; i++) cell_set(i, claim(C));
}
static void whole_back_0(void) { back((uint32_t)cell[0], C); }
static void whole_back_1(void) { back((uint32_t)cell[1], C); }

static const struct model_scenario scenarios[] = {
    {"segment-retire-two-classes", retire_setup, {retire_back, retire_pass, retire_other}, world_check, 0},
    {"segment-stays-listed", listed_setup, {listed_claim, listed_back}, world_check, 0},
    {"segment-whole-by-two", whole_setup, {whole_back_0, whole_back_1, retire_other}, world_check, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
