// Options that take a whole number. A text that is none, or is out of range, is refused with the
// option, what it takes, and what the user wrote.
#ifndef ASSAY_CLIENT_CLI_WHOLE_NUMBER_H_
#define ASSAY_CLIENT_CLI_WHOLE_NUMBER_H_

#include <string>
#include <utility>

#include "CLI/CLI.hpp"

namespace assay::client {

// A refusal whose message is for the user as it is.
class BadOption : public CLI::ParseError {
 public:
  explicit BadOption(std::string message)
      : CLI::ParseError("BadOption", std::move(message), CLI::ExitCodes::ValidationError) {}
};

// The least and the largest value that an option takes.
struct WholeRange {
  int least;
  int most;
};

// Adds --NAME N, which sets `value`. The app throws BadOption when it parses another text.
void AddWholeNumber(CLI::App& app, const std::string& name, int& value, const std::string& help);
void AddWholeNumber(CLI::App& app, const std::string& name, int& value, const std::string& help,
                    WholeRange range);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_WHOLE_NUMBER_H_
