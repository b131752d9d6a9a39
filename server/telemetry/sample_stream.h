// Splits what the telemetry process writes into samples. Each is a varint of its size and a message
// assay.v1.Device. The function is pure.
#ifndef ASSAY_SERVER_TELEMETRY_SAMPLE_STREAM_H_
#define ASSAY_SERVER_TELEMETRY_SAMPLE_STREAM_H_

#include <cstddef>
#include <optional>
#include <string>

#include "assay/v1/device.pb.h"

namespace assay::server {

// The largest sample [bytes]. A sample has a few hundred bytes, so a message that claims more is
// none.
inline constexpr std::size_t kMostSampleBytes = std::size_t{1} << 20;

// The next whole sample behind `*used`, which it moves on. Nothing if the sample is not yet whole.
// Sets `*used` to npos if the bytes cannot be a sample; then nothing more can be read.
std::optional<v1::Device> NextSample(const std::string& bytes, std::size_t* used);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_SAMPLE_STREAM_H_
