/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between stepd-slurmstepd and step_hooks_spank.so in the agent, which are of the same build: a
 * pair of sockets that keep messages apart. To the agent goes one message with a file in memory, a
 * JSON document of what the step is; from it come messages of a kind, a level of Slurm as a digit,
 * and text.
 */
#ifndef SLURM_SPANK_WIRE_H
#define SLURM_SPANK_WIRE_H

#define SPANK_WIRE_SHOW    'S' /* a line for the user */
#define SPANK_WIRE_LOG     'L' /* a text for slurmd's log */
#define SPANK_WIRE_FAILURE 'F' /* the text is an error of Slurm, for srun */

#define SPANK_TEXT_MAX    4096
#define SPANK_MESSAGE_MAX (SPANK_TEXT_MAX + 256)
#define SPANK_FACTS_MAX   (64u << 20)

#endif
