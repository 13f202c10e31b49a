/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite make: tests containers that mm makes, with hand-made images and with one of the toolkit's (argv: its folder, see run.sh). To be built
 * with AddressSanitizer. */
#define _GNU_SOURCE
#include <check.h>
#include <stdio.h>

#include "tests/load/exercise.h"
#include "tests/load/made.h"
#include "tests/load/support.h"
#include "tests/runner.h"

static const char *folder;

/* With images of any length, the container equals one that is made field by field. */
START_TEST(made_as_by_hand) {
    static struct made m;
    const size_t bytes = (size_t)_i;
    unsigned char *const image = exactly(TEXT, bytes);
    size_t made_bytes;
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_entry(&m, ELF, 80, STORED, NULL, NULL, image, bytes);
    made_entry(&m, ELF, 121, STORED, NULL, NULL, TEXT, 21);
    const struct mm_fatbin_image images[] = {{image, bytes, 80}, {TEXT, 21, 121}};
    unsigned char *const made = (unsigned char *)mm_fatbin_try_make(images, 2, &made_bytes);
    ck_assert(made && made_bytes == m.bytes && memcmp(made, m.at, m.bytes) == 0);
    for (size_t count = 0; count <= EXERCISE_IMAGES; count++) exercise_make(image, bytes, count);
    free(made);
    free(image);
}
END_TEST

/* Writes after.fatbin, with two.cubin in it, for other programs to read (run.sh). */
START_TEST(toolkit_made) {
    char path[4096];
    size_t bytes, made_bytes;
    unsigned char *const cubin = read_file(folder, "two.cubin", &bytes);
    void *const made = mm_fatbin_try_make(&(struct mm_fatbin_image){cubin, bytes, 90}, 1, &made_bytes);
    snprintf(path, sizeof path, "%s/after.fatbin", folder);
    FILE *const f = fopen(path, "wb");
    ck_assert_msg(made && f, "%s cannot be written", path);
    const size_t written = fwrite(made, 1, made_bytes, f);
    ck_assert(fclose(f) == 0 && written == made_bytes);
    free(cubin);
    free(made);
}
END_TEST

int main(int argc, char **argv) {
    Suite *const suite = suite_create("make");
    TCase *const made = tcase_create("made by hand"), *const toolkit = tcase_create("made by the toolkit");
    folder = argc > 1 ? argv[1] : NULL;
    tcase_add_loop_test(made, made_as_by_hand, 0, 17);
    if (folder) tcase_add_test(toolkit, toolkit_made);
    suite_add_tcase(suite, made);
    suite_add_tcase(suite, toolkit);
    return suite_run(suite);
}
