// Counts how often a threshold would fail a right product.
#ifndef ASSAY_TESTS_EXPERIMENTS_ALARMS_H_
#define ASSAY_TESTS_EXPERIMENTS_ALARMS_H_

#include <cstdint>

namespace assay::experiment {

// Draws data, shapes and operands, computes every right product of them, and prints how near each
// statistic came to its threshold. Takes so many seconds of processor time; an interrupt (SIGINT)
// ends it early. Returns the products that Assay itself would fail.
long CountAlarms(double seconds, std::uint64_t seed);

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_ALARMS_H_
