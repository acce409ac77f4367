/*
 * guc.h
 *		The extension's settings, all named dcounter.*.
 */
#ifndef DC_GUC_H
#define DC_GUC_H

extern int dc_pending_memory; /* kB of pending deltas kept per transaction */

extern void guc_init(void);

#endif /* DC_GUC_H */
