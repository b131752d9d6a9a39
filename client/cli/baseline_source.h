// Finds the times that a word names.
//
// A word is a name in the daemon's store ("baselines/nightly" or "nightly"), a job ("jobs/4f2k"),
// or a file that holds a baseline or the JSON report of a benchmark. A word names a file if it
// contains a '/' or ends in ".json".
#ifndef ASSAY_CLIENT_CLI_BASELINE_SOURCE_H_
#define ASSAY_CLIENT_CLI_BASELINE_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "assay/v1/service.pb.h"
#include "client/lib/connection.h"

namespace assay::client {

// "nightly" -> "baselines/nightly".
std::string BaselineName(const std::string& name);

// Whether a baseline may be stored under the name, without "baselines/".
// INVALID_ARGUMENT for one that would be read as a file's wherever it is said.
absl::Status CheckNewBaselineName(const std::string& name);

// The source that a word means; a file is read. INVALID_ARGUMENT as ReadBaselineFile.
absl::StatusOr<v1::BaselineSource> ParseBaselineSource(const std::string& word);

// The baseline with its results, wherever it is. A job's holds all of its timed cases.
grpc::Status FetchBaseline(Connection& connection, const v1::BaselineSource& source,
                           v1::Baseline* baseline);

// Puts the source into the job's spec; a job's times are fetched for it.
grpc::Status SetBaseline(Connection& connection, const v1::BaselineSource& source,
                         v1::JobSpec* spec);

// What counts where --threshold is not given, for its help.
inline constexpr char kThresholdHelp[] =
    "5%; 10% on another host, or on another device of the model";

// "5%", "0.05". INVALID_ARGUMENT begins with "threshold".
absl::StatusOr<double> ParseThreshold(const std::string& text);

// That the two sides are of different kinds, a job has no times, or a name is taken is the
// caller's mistake, as a malformed request is: it becomes INVALID_ARGUMENT. Other statuses
// stay.
grpc::Status AsMistake(const grpc::Status& status);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_BASELINE_SOURCE_H_
