/*
 * foreign.h
 *		Counter tables on other servers (see foreign.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_FOREIGN_H
#define DC_FOREIGN_H

#include "core/table/catalog.h"

extern void foreign_ready(DcCounter *counter);
extern void foreign_note_early(DcCounter *counter);
extern void foreign_check_alive(void);
extern void foreign_end_xact(void);

#endif /* DC_FOREIGN_H */
