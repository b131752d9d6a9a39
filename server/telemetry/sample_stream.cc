#include "server/telemetry/sample_stream.h"

#include <cstdint>

#include "google/protobuf/io/coded_stream.h"

namespace assay::server {
namespace {

// Of a size.
constexpr int kMostVarintBytes = 5;

}  // namespace

std::optional<v1::Device> NextSample(const std::string& bytes, std::size_t* used) {
  if (*used == bytes.npos) return std::nullopt;
  const auto left = static_cast<int>(bytes.size() - *used);
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const std::uint8_t*>(bytes.data()) + *used, left);
  std::uint32_t size = 0;
  const bool whole_size = in.ReadVarint32(&size);
  v1::Device device;
  if (!whole_size && left < kMostVarintBytes) return std::nullopt;
  if (whole_size && size <= kMostSampleBytes) {
    const int begin = in.CurrentPosition();
    if (static_cast<std::uint32_t>(left - begin) < size) return std::nullopt;
    if (device.ParseFromArray(bytes.data() + *used + begin, static_cast<int>(size))) {
      *used += static_cast<std::size_t>(begin) + size;
      return device;
    }
  }
  *used = bytes.npos;
  return std::nullopt;
}

}  // namespace assay::server
