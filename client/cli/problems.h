// Collects what is wrong with a command line, so that it is all said at once.
#ifndef ASSAY_CLIENT_CLI_PROBLEMS_H_
#define ASSAY_CLIENT_CLI_PROBLEMS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"

namespace assay::client {

class Problems {
 public:
  void Add(const absl::Status& status) {
    if (!status.ok()) lines_.emplace_back(status.message());
  }
  void Add(const std::string& line) { lines_.push_back(line); }

  // Moves the value to `out`, or adds its error. Whether there was a value.
  template <class T>
  bool Take(absl::StatusOr<T> value, T& out) {
    Add(value.status());
    if (!value.ok()) return false;
    out = *std::move(value);
    return true;
  }

  bool none() const { return lines_.empty(); }

  // INVALID_ARGUMENT with a line for each problem, or OK.
  absl::Status Status() const {
    return none() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_PROBLEMS_H_
