/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ELF files by hand: which library is found, and what broken ones lead to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stepd/launch/child.h"

#define ADDRESS 0x400000u

/* A program with one loaded segment that is the whole file. */
struct file {
	Elf64_Ehdr head;
	Elf64_Phdr segments[2];
	Elf64_Dyn entries[6];
	char strings[64];
};

static struct file file_with(const char *first, const char *second)
{
	struct file f = {
		.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
			.e_phoff = offsetof(struct file, segments),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2},
		.segments = {{.p_type = PT_LOAD, .p_vaddr = ADDRESS, .p_filesz = sizeof(f)},
			{.p_type = PT_DYNAMIC,
				.p_offset = offsetof(struct file, entries),
				.p_filesz = sizeof(f.entries)}},
		.entries = {{.d_tag = DT_NEEDED, .d_un.d_val = 1},
			{.d_tag = DT_NEEDED, .d_un.d_val = 33},
			{.d_tag = DT_STRTAB,
				.d_un.d_ptr = ADDRESS + offsetof(struct file, strings)},
			{.d_tag = DT_NULL}},
	};

	(void)snprintf(f.strings + 1, 32, "%s", first);
	(void)snprintf(f.strings + 33, 31, "%s", second);
	return f;
}

static unsigned look_at(const void *data, size_t size)
{
	int fd = memfd_create("program", MFD_CLOEXEC);
	unsigned number;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), (ssize_t)size);
	number = linked_detect(fd);
	(void)close(fd);
	return number;
}

static void plugin_is(const char *library, const char *plugin)
{
	struct file f = file_with("libc.so.6", library);
	const char *got = linked_plugin(look_at(&f, sizeof(f)));

	if (plugin)
		assert_string_equal(got, plugin);
	else
		assert_null(got);
}

static void test_libraries(void **state)
{
	struct file f = file_with("libmpich.so.12", "libc.so.6");

	(void)state;
	plugin_is("libmpich.so.12", "pmi2");
	plugin_is("libmpi.so.12", "pmi2");
	plugin_is("libmpi.so.40", "pmix");
	plugin_is("libpmix.so.2", "pmix");
	plugin_is("libpmi2.so.0", "pmi2");
	plugin_is("libpmi.so.0", "pmi2");
	plugin_is("libmpifort.so", NULL);
	plugin_is("libm.so.6", NULL);
	plugin_is("", NULL);
	assert_string_equal(linked_library(look_at(&f, sizeof(f))), "libmpich.so");
	assert_null(linked_library(0));
	assert_null(linked_library(1000));
	assert_null(linked_plugin(1000));
}

/* However short: no library, or the right one. */
static void test_cut_off(void **state)
{
	struct file f = file_with("libc.so.6", "libmpi.so.40");
	size_t size;
	unsigned number, right = look_at(&f, sizeof(f));

	(void)state;
	assert_true(right > 0);
	for (size = 0; size < sizeof(f); size++) {
		number = look_at(&f, size);
		assert_true(number == 0 || number == right);
	}
}

/* Each byte of the headers with each of some values: nothing but numbers that there are. */
static void test_wrong(void **state)
{
	static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct file f = file_with("libc.so.6", "libmpi.so.40"), wrong;
	unsigned number;
	size_t i, k;

	(void)state;
	for (i = 0; i < offsetof(struct file, strings); i++) {
		for (k = 0; k < sizeof(values); k++) {
			wrong = f;
			((unsigned char *)&wrong)[i] = values[k];
			number = look_at(&wrong, sizeof(wrong));
			assert_true(number == 0 || linked_library(number));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
