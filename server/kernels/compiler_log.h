// The log of a compiler: makes lines of what the compiler prints, and keeps their beginning for the
// error that tells of a failed compile.
//
// A source may make a compiler print anything. So a line is valid UTF-8 without control characters
// and has at most 1,000 bytes, and the log ends when its bytes are used up.
//
// Not thread-safe.
#ifndef ASSAY_SERVER_KERNELS_COMPILER_LOG_H_
#define ASSAY_SERVER_KERNELS_COMPILER_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::server {

class CompilerLog {
 public:
  // `file_name` is the author's file, as messages name it. `tell` is called with each line; it may
  // be empty. At most `bytes` of lines are told [bytes].
  CompilerLog(std::string file_name, std::int64_t bytes,
              std::function<void(const std::string&)> tell);

  // Takes the next bytes that the compiler printed.
  void Take(std::string_view bytes);
  // The compiler prints nothing more.
  void End();

  // The lines from the first one that names a line of the author's file, at most 1,500 bytes. If no
  // line names the file, all lines.
  std::string Summary() const;

 private:
  void Line();

  const std::string file_name_;
  std::int64_t left_;
  const std::function<void(const std::string&)> tell_;
  std::string partial_;
  std::vector<std::string> first_;  // lines for Summary
  std::size_t first_bytes_ = 0;
  bool author_named_ = false;
};

// The text as valid UTF-8 without control characters: a tab becomes a space, each other byte or
// character that may not be shown a "?".
std::string ShownText(std::string_view text);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_COMPILER_LOG_H_
