#include "client/cli/kernel_upload.h"

#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/lib/errors.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

// "compiling my_gemm.c … 1.2 s", with the compiler's lines below it.
class Told {
 public:
  Told(std::ostream& out, const KernelChoice& kernel)
      : out_(out), compiles_(IsCompiled(kernel.form)) {
    if (compiles_) out_ << "compiling " << Visible(FileNameOf(kernel)) << " …" << std::flush;
  }
  void Line(const std::string& line) {
    if (lines_++ == 0) out_ << '\n';
    out_ << line << '\n' << std::flush;
  }
  void Done(const v1::UserKernel& kernel) {
    if (!compiles_) return;
    const std::string took =
        kernel.has_compile_time()
            ? absl::StrFormat("%.1f s", static_cast<double>(kernel.compile_time().seconds()) +
                                            1e-9 * kernel.compile_time().nanos())
            : "done before";
    out_ << (lines_ == 0 ? " " : "compiled in ") << took << '\n' << std::flush;
  }
  void Failed() {
    if (compiles_ && lines_ == 0) out_ << '\n' << std::flush;
  }
  int lines() const { return lines_; }

 private:
  std::ostream& out_;
  const bool compiles_;
  int lines_ = 0;
};

}  // namespace

grpc::Status SendKernel(const Context& context, Connection& connection, const KernelChoice& kernel,
                        std::string* name) {
  *name = kernel.provider;
  if (!kernel.provider.empty()) return grpc::Status::OK;
  Told told(context.streams.err, kernel);
  v1::UserKernel kept;
  grpc::Status status = UploadKernel(
      connection, kernel, [&told](const std::string& line) { told.Line(line); }, &kept);
  if (!status.ok()) {
    told.Failed();
    // The compiler's own lines have said why.
    if (ReasonOf(status) == v1::ERROR_REASON_KERNEL_SOURCE && told.lines() > 0) {
      return {
          grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat(Visible(FileNameOf(kernel)), " does not compile on ", connection.target())};
    }
    return status;
  }
  told.Done(kept);
  *name = kept.provider();
  return grpc::Status::OK;
}

}  // namespace assay::client
