/*
 * errors.h
 *		Errors that many rooms raise (see errors.c).
 */
#ifndef DC_ERRORS_H
#define DC_ERRORS_H

extern void serialization_error(void);

#endif /* DC_ERRORS_H */
