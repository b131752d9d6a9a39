// The ceilings of a device that efficiencies are shares of, and whether those are to be believed.
#ifndef ASSAY_SERVER_BASE_ROOFS_H_
#define ASSAY_SERVER_BASE_ROOFS_H_

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"

namespace assay {

using CeilingList = google::protobuf::RepeatedPtrField<v1::Ceiling>;

// Suspect, or of runs that deviated: worth measuring again, and nothing to compare devices by.
bool IsDoubtful(const v1::Ceiling& ceiling);

// The fastest arithmetic of `dtype`; with DTYPE_UNSPECIFIED the memory's, its copy. nullptr where
// it is not known.
const v1::Ceiling* FindRoof(const CeilingList& ceilings, v1::DType dtype);

// What an efficiency is a share of, as it was when the time was taken.
struct Roof {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // unspecified: the memory's
  double per_second = 0;                    // operations or bytes
};

// Of a benchmark that has an efficiency.
Roof RoofOf(const v1::CaseResult& result);

// Whether the device has that roof by now, beyond doubt. True where it is not known.
bool IsSound(const Roof& roof, const CeilingList& ceilings);

// Takes over what a worker told, which is newer than what the device is known to have.
void MergeCeilings(const CeilingList& told, v1::Device& device);

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_ROOFS_H_
