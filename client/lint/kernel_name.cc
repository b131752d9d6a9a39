#include "client/lint/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>

namespace assay::client {

std::string KernelName(const std::string& symbol) {
  int status = 0;
  char* const name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 && name != nullptr ? name : symbol;
  std::free(name);
  return text;
}

}  // namespace assay::client
