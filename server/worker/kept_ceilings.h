// Keeps measured ceilings as a text, so that a new worker or a new daemon need not measure them
// again. The worker makes and reads the text. The daemon keeps it in a file (ceilings_file.h),
// because a worker may not write there. Ceilings stay valid until the machine starts again, or the
// device, its driver or this version changes.
//
// A ceiling in doubt (Ceilings::Doubt) is `suspect`. The next time that it is asked for, it is
// measured once more, and the faster value counts. If it is doubted again after that, it stays
// `suspect`, because the doubt is no accident of one moment. The text keeps both facts.
#ifndef ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_
#define ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/ceilings.h"
#include "kernels/runtime/device.h"

namespace assay::server {

// The id of this start of the machine. Empty if Linux does not tell it.
std::string BootId();

// Everything that a ceiling depends on, as one line. Empty without a boot id: then nothing is kept.
std::string CeilingsKey(const DeviceInfo& device, std::string_view version,
                        std::string_view boot_id);

// Ceilings that can list those that are known, without measuring.
class KnownCeilings : public Ceilings {
 public:
  virtual std::vector<Ceiling> Known() const = 0;
  // Takes over the ceilings of a text that TakeText returned. Ignores a text that is damaged or has
  // another key, as a whole.
  virtual void Restore(std::string_view text) = 0;
  // The text of all known ceilings, if any has changed since the last call. Else empty.
  virtual std::string TakeText() = 0;
};

// Wraps `measured`. With an empty key there is no text. nullptr if `measured` is nullptr.
std::unique_ptr<KnownCeilings> KeepCeilings(std::unique_ptr<Ceilings> measured, std::string key);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_
