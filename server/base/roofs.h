// Finds the ceiling of a device that an efficiency is a share of, and says whether the ceiling is
// in doubt.
#ifndef ASSAY_SERVER_BASE_ROOFS_H_
#define ASSAY_SERVER_BASE_ROOFS_H_

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"

namespace assay::server {

using CeilingList = google::protobuf::RepeatedPtrField<v1::Ceiling>;

// Whether the ceiling is in doubt: it is marked `suspect`, or its runs deviated by more than 10 %.
// A ceiling in doubt is measured again, and devices are not compared by it.
bool IsDoubtful(const v1::Ceiling& ceiling);

// The roof: the fastest arithmetic of `dtype`, or the copy bandwidth for DTYPE_UNSPECIFIED. nullptr
// if it is not known.
const v1::Ceiling* FindRoof(const CeilingList& ceilings, v1::DType dtype);

// The roof at the time when a case was timed.
struct Roof {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // unspecified: the memory roof
  double per_second = 0;                    // operations or bytes
};

// The roof of a benchmark. `result` must have an efficiency.
Roof RoofOf(const v1::CaseResult& result);

// Whether the device still has this roof and the roof is not in doubt. True if the device's roof is
// not known.
bool IsSound(const Roof& roof, const CeilingList& ceilings);

// Stores the ceilings that a worker told. They replace older ceilings of the same kind and format.
void MergeCeilings(const CeilingList& told, v1::Device& device);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_ROOFS_H_
