/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The text of io.stepd.Step.varlink, in the program: interface.c is made of the file.
 */
#ifndef STEPD_CONTROL_INTERFACE_H
#define STEPD_CONTROL_INTERFACE_H

#define CONTROL_INTERFACE "io.stepd.Step"

extern const char control_interface_text[];

#endif
