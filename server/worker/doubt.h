// Ceilings that results contradict, as the daemon sees them: what the worker does with its
// own (Ceilings::Doubt), so that a listing shows it without asking the worker.
#ifndef ASSAY_SERVER_WORKER_DOUBT_H_
#define ASSAY_SERVER_WORKER_DOUBT_H_

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"

namespace assay {

// Whether it is worth measuring again: suspect, or of runs that deviated.
bool IsDoubtful(const v1::Ceiling& ceiling);

// Marks the device's ceiling as suspect that the case's median was beyond, if it was.
void DoubtCeilings(const v1::CaseResult& result, v1::Device& device);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_DOUBT_H_
