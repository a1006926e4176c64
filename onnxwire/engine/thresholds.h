/* Sizes and counts from which, or up to which, the engine uses an index, a cache, a thread or other costly means.
 *
 * The sanitized builds (`make sanitize`, `make fuzz-sanitized`) use small values, so that short inputs reach the same
 * code, and have no free lists, so that a use after free is detected.
 */
#ifndef ONNXWIRE_THRESHOLDS_H
#define ONNXWIRE_THRESHOLDS_H

#ifdef ONNXWIRE_SMALL_LIMITS
#define OW_LIMIT(usual, small) (small)
#else
#define OW_LIMIT(usual, small) (usual)
#endif

/* The document caches the slots of messages with at least this many records and bytes. */
#define OW_MIN_CACHED_RECORDS OW_LIMIT(64, 3)
#define OW_MIN_CACHED_BYTES OW_LIMIT(256, 16)
#define OW_MIN_CACHED_PARTS OW_LIMIT(8, 2) /* the document caches the Spans of messages with this many parts or more */
#define OW_MAX_LEAF_PAIRS OW_LIMIT(512, 4)         /* maximum number of pairs in a leaf of engine/overlay_index.pyx */
#define OW_MAX_FULL_OVERLAYS OW_LIMIT(64, 2) /* maximum number of recent, uncompacted overlays of a document */
#define OW_MAX_FULL_PART_OVERLAYS OW_LIMIT(8, 2) /* as above, for less than 64 KiB of copied or frozen messages */
#define OW_MAX_RESCANNED_BYTES OW_LIMIT(1024, 24) /* compact overlays of longer messages store all present fields */
/* Access to one of this many first elements makes no index. In a field of more than 64 times this many elements, the
 * number of these first elements is 4 times as large. The document caches only indexes of more than this many elements.
 */
#define OW_MAX_WALKED_ELEMENTS OW_LIMIT(8, 1)
#define OW_MAX_MOVED_ELEMENTS OW_LIMIT(64, 1)    /* edits at most this far from an end move the elements in between */
#define OW_MAX_UNCACHED_NUMBERS OW_LIMIT(64, 2)  /* access by index caches the numbers of longer fields */
#define OW_NOGIL_RUN_BYTES OW_LIMIT(1 << 16, 4)  /* size from which a packed run is decoded without the GIL */
#define OW_THREAD_RUN_BYTES OW_LIMIT(1 << 20, 16) /* minimum bytes of a packed run per thread */
#define OW_LONG_BYTES OW_LIMIT(1 << 16, 16)      /* size of a long value: encoded by reference, fetched on demand */
#define OW_FAR_SKIP_BYTES OW_LIMIT(1 << 18, 64)  /* size from which a walk does not map a skipped value */
#define OW_FAR_FILE_BYTES OW_LIMIT((uint64_t)64 << 20, 64) /* size from which a file's first bytes are requested */
#define OW_COPY_BYTES OW_LIMIT(256, 48)          /* bytes of a copy of a header (engine/header_copies.pyx) */
#define OW_COPIED_BEFORE_BYTES OW_LIMIT(64, 8)   /* bytes of the copy that precede the header: the end of a tensor */
#define OW_MAX_SHORT_CHUNKS OW_LIMIT(64, 8)      /* maximum number of byte ranges of a ShortMessage */
#define OW_PAGE_BYTES OW_LIMIT(1 << 12, 16)      /* bytes of a page of a remote file; no system has smaller pages */
#define OW_MAX_SMALL_BYTES OW_LIMIT(1 << 12, 24) /* messages up to this size are copied or frozen by encoding */
#define OW_FREEZE_BATCH OW_LIMIT(32, 2)          /* added elements that are encoded together (engine/freeze.pyx) */
#define OW_MAX_SINGLE_PASS_BYTES OW_LIMIT(1 << 24, 64) /* larger messages are measured before they are written */
#ifdef Py_GIL_DISABLED
#define OW_FREE_LIST_SIZE 0 /* views are freed without the section's lock; the allocator has a free list per thread */
#else
#define OW_FREE_LIST_SIZE OW_LIMIT(32, 0) /* free objects in each list; at most FREE_LIST_CAPACITY (table.pxd) */
#endif

#endif
