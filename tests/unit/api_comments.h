// The comments of the public API, and the limits that a text states. Tests hold the limits against
// the code, so that neither changes alone.
#ifndef ASSAY_TESTS_UNIT_API_COMMENTS_H_
#define ASSAY_TESTS_UNIT_API_COMMENTS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace assay {

// Comments of messages and fields, by name without the package: "JobSpec.trials". `file` is a
// FileDescriptorSet with the sources' comments, as protoc writes it.
inline std::map<std::string, std::string> ApiComments(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  google::protobuf::FileDescriptorSet set;
  google::protobuf::DescriptorPool pool;
  std::map<std::string, std::string> comments;
  if (!set.ParseFromIstream(&stream)) return comments;
  const std::string package = "assay.v1.";
  const auto add = [&](const auto& element) {
    google::protobuf::SourceLocation location;
    if (!element.GetSourceLocation(&location)) return;
    std::string text = location.leading_comments;
    std::replace(text.begin(), text.end(), '\n', ' ');
    comments[element.full_name().substr(package.size())] =
        std::regex_replace(text, std::regex(" +"), " ");
  };
  for (const google::protobuf::FileDescriptorProto& proto : set.file()) {
    const google::protobuf::FileDescriptor* built = pool.BuildFile(proto);
    if (built == nullptr || built->package() + "." != package) continue;
    for (int m = 0; m < built->message_type_count(); ++m) {
      add(*built->message_type(m));
      for (int f = 0; f < built->message_type(m)->field_count(); ++f) {
        add(*built->message_type(m)->field(f));
      }
    }
  }
  return comments;
}

// "at most 64 labels": {kMost, 64, "labels"}. A default has no unit.
struct Statement {
  enum Kind { kLeast, kMost, kDefault };
  Kind kind;
  double value;
  std::string unit;
  friend bool operator==(const Statement&, const Statement&) = default;
};

// What a text says by "at most N unit", "from N to N" and "default N".
inline std::vector<Statement> StatementsIn(std::string text) {
  text = std::regex_replace(text, std::regex("([0-9]),([0-9])"), "$1$2");
  const std::string number = "(-?[0-9]+(?:\\.[0-9]+)?)";
  static const std::regex form("[Aa]t most " + number + "(?: ([a-z]+))?|[Ff]rom " + number +
                               " to " + number + "|[Dd]efault:? " + number + "(%?)");
  std::vector<Statement> found;
  for (std::sregex_iterator it(text.begin(), text.end(), form), end; it != end; ++it) {
    const std::smatch& m = *it;
    if (m[1].matched) found.push_back({Statement::kMost, std::stod(m[1]), m[2]});
    if (m[3].matched) found.push_back({Statement::kLeast, std::stod(m[3]), ""});
    if (m[4].matched) found.push_back({Statement::kMost, std::stod(m[4]), ""});
    if (m[5].matched) {
      found.push_back({Statement::kDefault, std::stod(m[5]) / (m[6].length() > 0 ? 100 : 1), ""});
    }
  }
  return found;
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_API_COMMENTS_H_
