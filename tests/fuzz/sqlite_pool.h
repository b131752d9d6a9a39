// SQLite's memory, for the targets that use a store. SQLite allocates so often that
// AddressSanitizer's allocator would take a third of their time.
#ifndef ASSAY_TESTS_FUZZ_SQLITE_POOL_H_
#define ASSAY_TESTS_FUZZ_SQLITE_POOL_H_

namespace assay::fuzz {

// From now on SQLite has its memory from blocks of our own. AddressSanitizer still reports who
// reads or writes behind a block or in one that is free: blocks have a poisoned gap between them,
// and of the free blocks of a size the one that is free for longest is used again. It does not say
// who had allocated the block. Call it before SQLite is used.
void PoolSqliteMemory();

}  // namespace assay::fuzz

#endif  // ASSAY_TESTS_FUZZ_SQLITE_POOL_H_
