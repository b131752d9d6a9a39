// Prints what the experiment measured, as tables in Markdown.
#ifndef ASSAY_TESTS_EXPERIMENTS_TABLES_H_
#define ASSAY_TESTS_EXPERIMENTS_TABLES_H_

#include <span>
#include <string>

#include "tests/experiments/products.h"

namespace assay::experiment {

std::string NameOf(const Formats& formats);
// "the upper Q" and the like.
const char* NameOf(QKind kind);

// One product, tab-separated. The columns: right or defect, formats, data, K, algorithm, ρ, ρ if
// the bound holds truncation; then for each kind of Q: R, largest z, largest R of a group, its
// share of the threshold, gain, its standard error, its limit.
void PrintLine(const Measured& x);

// The two tables of README.md.
void PrintSummary(std::span<const Measured> measured);
// Every format by itself, other data, orders along K, what truncating units lose.
void PrintDetails(std::span<const Measured> measured);

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_TABLES_H_
