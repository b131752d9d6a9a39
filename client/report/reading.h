// Puts into a word how a time compares with its roof. The word is for people and is never a
// verdict.
//
// From 60 % of the roof on, a kernel is efficient. Below 40 % it is worth a look. A softmax moves
// data in several passes and computes little, so it does well from 30 % of the memory roof on.
#ifndef ASSAY_CLIENT_REPORT_READING_H_
#define ASSAY_CLIENT_REPORT_READING_H_

#include <optional>
#include <string>

#include "assay/v1/case.pb.h"

namespace assay::client {

enum class SpeedReading {
  kNone,  // not timed, without a roof, or mostly the launch itself
  kEfficient,
  kBetween,
  kLookCloser,
};

SpeedReading ReadingOf(const v1::CaseResult& result);

// "efficient", "between", "look closer"; empty for none.
std::string ReadingWord(SpeedReading reading);

// Share of the roof below which the case is worth a look: 0.4, or 0.3 for a softmax that
// the memory bounds.
double LowShare(const v1::CaseResult& result);

// Work of a case and what must move, from its rates: operations, bytes. Absent where
// nothing was timed.
std::optional<double> FlopsOf(const v1::BenchStats& bench);
std::optional<double> BytesOf(const v1::BenchStats& bench);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_READING_H_
