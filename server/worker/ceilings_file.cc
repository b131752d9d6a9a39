#include "server/worker/ceilings_file.h"

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <utility>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

// A ceiling is a line of some 60 bytes, and a device has a few dozen.
constexpr std::size_t kMostBytes = 64 << 10;

}  // namespace

CeilingsFile::CeilingsFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::ifstream in(path_, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() <= kMostBytes) text_ = std::move(text);
}

void CeilingsFile::Keep(const std::string& text) {
  if (text.empty() || text.size() > kMostBytes || text == text_) return;
  text_ = text;
  if (path_.empty()) return;
  const std::string fresh = Cat(path_, ".new");
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(fresh.c_str(), path_.c_str()) != 0) std::remove(fresh.c_str());
}

}  // namespace assay::server
