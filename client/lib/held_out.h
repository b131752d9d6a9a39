// HeldOut: shapes near those that the user named, drawn by the seed. Nobody tuned a kernel for
// them, so they find a kernel that is right in the named shapes alone.
//
// The API says which fields are extents (assay.v1.OperandInfo.axes). An extent below 16 is kept,
// because it counts heads, groups or the taps of a kernel. An extent that another field must divide
// is kept, too. All others are drawn between three and five quarters of the named extent. The same
// shape and seed give the same draws. Not thread-safe.
#ifndef ASSAY_CLIENT_LIB_HELD_OUT_H_
#define ASSAY_CLIENT_LIB_HELD_OUT_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/job.pb.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// The names of cases whose shape was drawn begin so.
inline constexpr char kHeldOut[] = "held out: ";

// Whether the API names extents of the operator. It names none of an operator of the user's own.
bool HasExtents(std::string_view op);

class HeldOut {
 public:
  // Draws `each` shapes near each shape of the job's cases. Cases that differ in something else,
  // such as the provider, get the same shapes.
  HeldOut(const v1::JobSpec& job, int each);

  // The job with the drawn cases behind its own. Their names begin with kHeldOut.
  v1::JobSpec Job() const;

  // After the daemon has refused Job(): draws what it refused again. False if Job() is the same as
  // before, so that the refusal stands. If the named cases are refused, too, the drawn ones go: the
  // daemon then speaks of the named ones alone.
  bool DrawAgain(const grpc::Status& refused);

  // The named shapes that have no drawn one, or fewer than they should: "gemm m=8 n=8 k=8". Each
  // stands once.
  std::vector<std::string> Lacking() const;

 private:
  struct Shape {
    std::vector<int> cases;  // which cases of the job have the named shape
    std::mt19937_64 random;
    v1::CaseSpec spec;  // a case with the drawn shape
    int left;           // how often it may still be drawn
    bool drawn;
  };

  const v1::CaseSpec& Named(const Shape& shape) const;
  void Draw(Shape& shape) const;
  // The shapes of the drawn cases, in their order.
  std::vector<Shape*> ShapesOfCases();
  bool DropAll();
  bool DrawRefused(const grpc::Status& refused);
  bool DrawSmaller();

  const v1::JobSpec job_;
  std::vector<Shape> shapes_;
  bool smaller_ = false;  // no extent above the named one: the device had no room
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_HELD_OUT_H_
