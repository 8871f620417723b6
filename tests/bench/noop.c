/* SPDX-License-Identifier: BSD-3-Clause
 * The smallest task: linked statically, it does nothing. */
int main(void)
{
	return 0;
}
