// Measured ceilings kept in a file, so that neither a new worker nor a new daemon measures
// again what the machine's start, the device, its driver and this version have not changed.
//
// A ceiling that is doubted (Ceilings::Doubt) is suspect until it is asked for the next
// time, and is then measured once more; the faster of both counts. One that is doubted
// again stays suspect: it is no accident of that moment. Both outlive the worker.
#ifndef ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_
#define ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/ceilings.h"
#include "kernels/runtime/device.h"

namespace assay {

// Which start of the machine this is; empty where Linux does not tell.
std::string BootId();

// What a ceiling depends on, as one line; empty, and nothing is kept, without a boot id.
std::string CeilingsKey(const DeviceInfo& device, std::string_view version,
                        std::string_view boot_id);

// Ceilings that say which of them they have, without measuring.
class KnownCeilings : public Ceilings {
 public:
  virtual std::vector<Ceiling> Known() const = 0;
};

// `measured`, its values read from `file` where that was written under the same key, and
// each new one written there at once. A file that cannot be read, is damaged or has
// another key is replaced; one that cannot be written costs no more than the measuring
// again. With an empty file name or key they are kept in memory alone.
std::unique_ptr<KnownCeilings> KeepCeilings(std::unique_ptr<Ceilings> measured, std::string file,
                                            std::string key);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_KEPT_CEILINGS_H_
