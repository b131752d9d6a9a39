// What the API says of operators (assay.v1.operator_info) is true of the operators themselves, for
// every case of every suite. A new operator needs no test of its own here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/lib/operands.h"
#include "client/lib/operators.h"
#include "kernels/ops/op.h"
#include "kernels/suites/suite.h"
#include "server/base/wire.h"

namespace assay {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<Case> CasesOfAllSuites() {
  std::vector<Case> cases;
  for (const std::string& name : ListSuiteNames(ASSAY_SUITES_DIR)) {
    const absl::StatusOr<Suite> suite =
        ParseSuite(*ReadSuiteText(ASSAY_SUITES_DIR, name), name, "cpu");
    EXPECT_TRUE(suite.ok()) << suite.status();
    cases.insert(cases.end(), suite->cases.begin(), suite->cases.end());
  }
  return cases;
}

std::vector<std::vector<std::int64_t>> ShapesOf(const Plan& plan) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Operand& input : plan.inputs) shapes.push_back(input.dims);
  shapes.push_back(plan.output.dims);
  return shapes;
}

// The fields that operands' axes name.
std::set<std::string> FieldsOfAxes(const v1::OperatorInfo& info) {
  std::set<std::string> fields;
  for (const v1::OperandInfo& operand : info.operands()) {
    for (const std::string& axes : {operand.axes(), operand.other_axes()}) {
      for (absl::string_view word : absl::StrSplit(axes, absl::ByAnyChar(" /"))) {
        const std::string field = absl::StrReplaceAll(word, {{"=", ""}, {"+", ""}, {"*", ""}});
        if (!field.empty() && field != "...") fields.insert(field);
      }
    }
    for (const std::string& text : {operand.when(), operand.implies()}) {
      if (!text.empty()) fields.insert(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& field : info.length().fields()) fields.insert(field);
  return fields;
}

TEST(OperatorInfo, NamesFieldsThatTheProblemHas) {
  for (const std::string& op : client::OperatorNames()) {
    const v1::OperatorInfo& info = client::InfoOf(op);
    EXPECT_EQ(info.operands().empty(), FindOp(op)->traits().own_reference)
        << op << " has no option operator_info";
    const auto* message = client::ProblemField(op)->message_type();
    for (const std::string& field : FieldsOfAxes(info)) {
      EXPECT_NE(message->FindFieldByName(field), nullptr) << op << "." << field;
    }
  }
}

TEST(OperatorInfo, AgreesWithTheOperator) {
  for (const std::string& name : client::OperatorNames()) {
    const Op* op = FindOp(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(client::InfoOf(name).several_passes(), op->traits().several_passes) << name;
  }
}

// From the shapes of a plan's operands the client must derive a problem with the same plan.
TEST(OperatorInfo, TheAxesOfOperandsGiveTheExtentsOfEveryCase) {
  std::set<std::string> seen;
  for (const Case& c : CasesOfAllSuites()) {
    const absl::StatusOr<Plan> plan = OpOf(c).MakePlan(c);
    if (!plan.ok()) continue;  // not possible on purpose
    v1::CaseSpec spec = server::ToProto(c);
    const FieldDescriptor* field = client::ProblemField(client::OpOf(spec));
    Message* problem = spec.GetReflection()->MutableMessage(&spec, field);
    const v1::OperatorInfo& info = client::InfoOf(spec);
    for (const v1::OperandInfo& operand : info.operands()) {
      v1::OperatorInfo one;
      *one.add_operands() = operand;
      one.mutable_operands(0)->clear_when();
      for (const std::string& name : FieldsOfAxes(one)) {
        if (operand.implies().starts_with(name + "=") && operand.axes().empty()) continue;
        problem->GetReflection()->ClearField(problem,
                                             problem->GetDescriptor()->FindFieldByName(name));
      }
    }
    std::vector<client::NamedShape> operands;
    for (const Operand& input : plan->inputs) {
      operands.push_back({std::string(input.name), input.dims});
    }
    const absl::Status filled = client::FillExtents(operands, spec);
    ASSERT_TRUE(filled.ok()) << DefaultName(c) << ": " << filled;
    std::vector<FieldError> errors;
    const Case again = server::FromProto(spec, errors);
    ASSERT_TRUE(errors.empty()) << DefaultName(c) << ": " << errors.front().field << ": "
                                << errors.front().message;
    const absl::StatusOr<Plan> same = OpOf(again).MakePlan(again);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(ShapesOf(*same), ShapesOf(*plan)) << DefaultName(c);
    seen.insert(client::OpOf(spec));
  }
  for (const std::string& op : client::OperatorNames()) {
    EXPECT_NE(seen.contains(op), FindOp(op)->traits().own_reference) << op;
  }
}

}  // namespace
}  // namespace assay
