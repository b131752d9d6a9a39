// Computes how often a fault must occur for the launches of a device to have shown it.
#ifndef ASSAY_CLIENT_QUALIFY_DETECTION_H_
#define ASSAY_CLIENT_QUALIFY_DETECTION_H_

#include <cstdint>

#include "assay/v1/case.pb.h"

namespace assay::client {

// The launches of a case whose outputs were judged: repeated ones and exact cases count, launches
// that were only timed do not. 0 if the case did not pass.
std::int64_t JudgedLaunches(const v1::CaseResult& result);

// The smallest share of wrong launches, at most 1, of which `launches` > 0 independent ones hold at
// least one with a probability of 95 %: a fault that spoils so many would have been found. About 3
// of `launches`.
double FoundShare(double launches);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_DETECTION_H_
