// Checks the fields of a job's spec by themselves, before any suite or device is looked at.
#ifndef ASSAY_SERVER_PLAN_SPEC_CHECK_H_
#define ASSAY_SERVER_PLAN_SPEC_CHECK_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/job.pb.h"
#include "google/protobuf/duration.pb.h"
#include "kernels/ops/field.h"
#include "server/plan/plan_options.h"

namespace assay::server {

// Whether a request has so many errors that no more are looked for. An answer has room for a few
// dozen, and a small request may have millions of bad fields.
inline bool Enough(const std::vector<FieldError>& errors) { return errors.size() >= 100; }

bool Contains(const std::vector<std::string>& names, std::string_view name);

// "; did you mean …?", or what there is; empty where nothing is known.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

// At most 256 bytes, of a case's or a suite's name.
void CheckName(std::string_view field, std::string_view name, std::vector<FieldError>& errors);

// A duration that is one, and more than 0; nothing where it is not `present`.
void CheckPositive(std::string_view field, bool present, const google::protobuf::Duration& duration,
                   std::vector<FieldError>& errors);

// Every bad field of the spec itself but those of its cases. `providers` are those the
// daemon knows.
void CheckJob(const v1::JobSpec& spec, const std::vector<std::string>& providers,
              const PlanOptions& options, std::vector<FieldError>& errors);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_SPEC_CHECK_H_
