// Findings of the wire. They are made here, so that a reason and its word always agree.
#ifndef ASSAY_SERVER_BASE_FINDING_H_
#define ASSAY_SERVER_BASE_FINDING_H_

#include <string_view>

#include "assay/v1/case.pb.h"

namespace assay::server {

// A finding with the blame that is usual for its reason.
v1::Finding MakeFinding(v1::Reason reason, std::string_view message);

// What a worker was doing when it died, or the step that found it.
void SetPhase(v1::Phase phase, v1::Finding& finding);

// Gives each finding of a case a step, unless it has one, or a death: the step that usually reports
// its reason. Some reasons come from every step (a device fails, memory ends): these get `last`,
// the step that the case came to.
void SetPhases(v1::Phase last, v1::CaseResult& result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_FINDING_H_
