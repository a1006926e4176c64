/* Sizes from which a longer way is worth its while, each with the comment of what it counts.
 *
 * The build that is made for finding faults (`make sanitize`, `make fuzz-sanitized`) has small ones, so that short inputs
 * go the long ways too, and keeps nothing that is dead, so that what uses it is caught.
 */
#ifndef ONNXWIRE_LIMITS_H
#define ONNXWIRE_LIMITS_H

#ifdef ONNXWIRE_SMALL_LIMITS
#define OW_LIMIT(usual, small) (small)
#else
#define OW_LIMIT(usual, small) (usual)
#endif

#define OW_KEEP_RECORDS OW_LIMIT(64, 3)   /* slots of a message with at least so many records are kept by the document */
#define OW_KEEP_BYTES OW_LIMIT(256, 16)   /* and are looked for where the message is at least so long */
#define OW_KEEP_PARTS OW_LIMIT(8, 2)      /* so are the pieces of a message in at least so many */
#define OW_OVERLAY_MERGE_BATCH OW_LIMIT(1024, 2)         /* overlays merged into the sorted array together */
#define OW_MAX_FULL_OVERLAYS OW_LIMIT(1024, 2)       /* overlays of a document that are not compacted */
#define OW_SHORT OW_LIMIT(8, 1)           /* elements of a sequence that is walked rather than indexed */
#define OW_SHORT_NUMBERS OW_LIMIT(64, 2)  /* numbers that are decoded again rather than kept */
#define OW_LONG_RUN OW_LIMIT(1 << 16, 4)  /* bytes of numbers whose decoding lets other threads run */
#define OW_SHARE OW_LIMIT(1 << 20, 16)    /* bytes of numbers that are worth a thread */
#define OW_LONG OW_LIMIT(1 << 16, 16)     /* bytes that are handed on where they stand */
#define OW_PAGE OW_LIMIT(1 << 12, 16)     /* bytes of a file on a server that come together; no system has smaller pages */
#define OW_MAX_SMALL_BYTES OW_LIMIT(1 << 12, 24) /* edited messages up to this size are copied by encoding them */
#define OW_FREEZE_BATCH OW_LIMIT(32, 2)   /* added elements that are encoded together (engine/freeze.pyx) */
#define OW_MAX_SINGLE_PASS_BYTES OW_LIMIT(1 << 24, 64) /* larger messages are measured before they are written */
#ifdef Py_GIL_DISABLED
#define OW_FREE_LIST 0                    /* threads would share it, and have lists of their own in its allocator */
#else
#define OW_FREE_LIST OW_LIMIT(32, 0)      /* dead views kept for reuse, per class; at most DEAD of engine/table.pxd */
#endif

#endif
