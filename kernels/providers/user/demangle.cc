#include "kernels/providers/user/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace assay {
namespace {

constexpr std::size_t kMostSymbolBytes = 2048;
constexpr double kMostTextBytes = 16 << 20;

// The most bytes of the text. S_ and T_ stand for an earlier part. Parts grow by standing in one
// another's template arguments, each level at most by as many times as it has references; equal
// levels grow most.
double MostTextBytes(const std::string& symbol) {
  double references = 0, levels = 1;
  for (std::size_t i = 0; i + 1 < symbol.size(); ++i) {
    const char next = symbol[i + 1];
    const bool number = next == '_' || (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z');
    references += (symbol[i] == 'S' || symbol[i] == 'T') && number ? 1 : 0;
    levels += symbol[i] == 'I' || symbol[i] == 'N' || symbol[i] == 'F' ? 1 : 0;
  }
  double most = 1;
  for (double l = 1; l <= levels; ++l) most = std::max(most, std::pow(references / l + 1, l));
  return most * static_cast<double>(symbol.size());
}

}  // namespace

std::optional<std::string> Demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > kMostSymbolBytes) return std::nullopt;
  if (MostTextBytes(symbol) > kMostTextBytes) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return std::nullopt;
  return std::string(text.get());
}

}  // namespace assay
