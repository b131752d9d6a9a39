#include "kernels/providers/cublaslt/description.h"

namespace assay::inline kernels::cublaslt {
namespace {

std::uint32_t EpilogueOf(const GemmProblem& p) {
  switch (p.activation_kind()) {
    case Activation::kRelu:
      return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

}  // namespace

void Describe(const GemmProblem& p, const Plan& plan, const Formats& f, Descriptors& d) {
  d.Make(f);
  const std::int32_t op_a = p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::int32_t op_b = p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  d.Set(CUBLASLT_MATMUL_DESC_TRANSA, op_a, "op(A)");
  d.Set(CUBLASLT_MATMUL_DESC_TRANSB, op_b, "op(B)");
  d.Layout(&d.a, f.in, plan.inputs[1].extents);
  d.Layout(&d.b, f.in, plan.inputs[0].extents);
  d.Layout(&d.c, f.c, p.beta != 0.0 ? plan.inputs[2].extents : plan.output.extents);
  d.Layout(&d.d, f.out, plan.output.extents);
  if (const std::uint32_t epilogue = EpilogueOf(p); epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    d.Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue, "the epilogue");
    if (p.bias) d.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, kAligned, "the bias");
  }
  if (p.channel_scale && f.in != CUDA_R_8F_E4M3) {
    const std::int32_t mode = p.beta == 0.0 ? CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO
                                            : CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
    d.Set(CUBLASLT_MATMUL_DESC_POINTER_MODE, mode, "a scale a column");
  }
}

void Prefer(std::uint64_t workspace, Descriptors& d) {
  d.Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  // If the parts of a split k were in the output's format, they would be rounded more than once.
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  d.Prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
}

}  // namespace assay::kernels::cublaslt
