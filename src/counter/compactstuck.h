/*
 * compactstuck.h
 *		Keys that compaction cannot move (see compactstuck.c).
 */
#ifndef DC_COMPACTSTUCK_H
#define DC_COMPACTSTUCK_H

extern int64 stuck_clock(void);
extern bool stuck_note(Oid table, Datum key);
extern Datum stuck_to_leave_out(Oid table);
extern int stuck_swept(Oid table, int64 started);

#endif /* DC_COMPACTSTUCK_H */
