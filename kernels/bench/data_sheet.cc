#include "kernels/bench/data_sheet.h"

#include <algorithm>

namespace assay::inline kernels {
namespace {

using enum DType;

constexpr double kTera = 1e12;

constexpr Ceiling Fma(DType dtype, double tera) { return {CeilingKind::kFma, dtype, tera * kTera}; }
constexpr Ceiling Matrix(DType dtype, double tera) {
  return {CeilingKind::kMatrix, dtype, tera * kTera};
}

// NVIDIA A100 Tensor Core GPU data sheet; fp16 on vector units is from the architecture paper.
// https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-nvidia-us-2188504-web.pdf
constexpr Ceiling kA100[] = {
    Fma(kF64, 9.7), Matrix(kF64, 19.5), Fma(kF32, 19.5),    Matrix(kTF32, 156),
    Fma(kF16, 78),  Matrix(kF16, 312),  Matrix(kBF16, 312), Matrix(kI8, 624),
};

// NVIDIA H100 Tensor Core GPU Architecture, table 2: dense figures of both boards.
// https://resources.nvidia.com/en-us-hopper-architecture/nvidia-h100-tensor-c
constexpr Ceiling kH100Sxm[] = {
    Fma(kF64, 33.5),       Matrix(kF64, 66.9),  Fma(kF32, 66.9),      Matrix(kTF32, 494.7),
    Fma(kF16, 133.8),      Matrix(kF16, 989.4), Matrix(kBF16, 989.4), Matrix(kE4M3FN, 1978.9),
    Matrix(kE5M2, 1978.9), Matrix(kI8, 1978.9),
};
constexpr Ceiling kH100Pcie[] = {
    Fma(kF64, 25.6),     Matrix(kF64, 51.2), Fma(kF32, 51.2),    Matrix(kTF32, 378),
    Fma(kF16, 102.4),    Matrix(kF16, 756),  Matrix(kBF16, 756), Matrix(kE4M3FN, 1513),
    Matrix(kE5M2, 1513), Matrix(kI8, 1513),
};

// NVIDIA H100 and H200 data sheets. The sheets print figures of matrix units with sparsity; they
// are halved here.
// https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet
// https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446
constexpr Ceiling kHopperNvl[] = {
    Fma(kF64, 30),           Matrix(kF64, 60),      Fma(kF32, 60),
    Matrix(kTF32, 417.5),    Matrix(kF16, 835.5),   Matrix(kBF16, 835.5),
    Matrix(kE4M3FN, 1670.5), Matrix(kE5M2, 1670.5), Matrix(kI8, 1670.5),
};
constexpr Ceiling kH200[] = {
    Fma(kF64, 34),         Matrix(kF64, 67),    Fma(kF32, 67),
    Matrix(kTF32, 494.5),  Matrix(kF16, 989.5), Matrix(kBF16, 989.5),
    Matrix(kE4M3FN, 1979), Matrix(kE5M2, 1979), Matrix(kI8, 1979),
};

// NVIDIA HGX B200: an eighth of the board's figures. Figures with sparsity are halved.
// https://www.nvidia.com/en-us/data-center/hgx/
constexpr Ceiling kB200[] = {
    Fma(kF64, 37),       Matrix(kF64, 37),    Fma(kF32, 75),         Matrix(kTF32, 1125),
    Matrix(kF16, 2250),  Matrix(kBF16, 2250), Matrix(kE4M3FN, 4500), Matrix(kE5M2, 4500),
    Matrix(kE2M1, 9000), Matrix(kI8, 4500),
};

// NVIDIA L40S data sheet.
// https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413
constexpr Ceiling kL40S[] = {
    Fma(kF32, 91.6),      Matrix(kTF32, 183), Matrix(kF16, 362.05), Matrix(kBF16, 362.05),
    Matrix(kE4M3FN, 733), Matrix(kE5M2, 733), Matrix(kI8, 733),
};

// NVIDIA's papers on the GA102, Ada and RTX Blackwell architectures, appendix A: matrix
// units with fp32 sums.
// https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf
// https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf
// https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf
constexpr Ceiling kRtx3090[] = {
    Fma(kF32, 35.6),  Fma(kF16, 35.6),   Matrix(kTF32, 35.6),
    Matrix(kF16, 71), Matrix(kBF16, 71), Matrix(kI8, 284),
};
constexpr Ceiling kRtx4090[] = {
    Fma(kF32, 82.6),      Fma(kF16, 82.6),        Matrix(kTF32, 82.6),  Matrix(kF16, 165.2),
    Matrix(kBF16, 165.2), Matrix(kE4M3FN, 330.3), Matrix(kE5M2, 330.3), Matrix(kI8, 660.6),
};
constexpr Ceiling kRtx5090[] = {
    Fma(kF32, 104.8),    Fma(kF16, 104.8),     Matrix(kTF32, 104.8),
    Matrix(kF16, 209.5), Matrix(kBF16, 209.5), Matrix(kE4M3FN, 419),
    Matrix(kE5M2, 419),  Matrix(kE2M1, 1676),  Matrix(kI8, 838),
};

// AMD Instinct MI250X data sheet. Its figures (fp16: 383) are those of the card. The toolkit shows
// each of the two dies as a device, so they are halved here.
// https://www.amd.com/content/dam/amd/en/documents/instinct-business-docs/product-briefs/instinct-mi250x-datasheet.pdf
constexpr Ceiling kMi250xDie[] = {
    Fma(kF64, 47.9 / 2),    Matrix(kF64, 95.7 / 2),  Fma(kF32, 47.9 / 2),   Matrix(kF32, 95.7 / 2),
    Matrix(kF16, 383. / 2), Matrix(kBF16, 383. / 2), Matrix(kI8, 383. / 2),
};

// AMD Instinct MI300X and MI325X data sheets. The 8-bit floats are the fnuz formats.
// https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/data-sheets/amd-instinct-mi300x-data-sheet.pdf
// https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/product-briefs/instinct-mi325x-datasheet.pdf
constexpr Ceiling kMi300x[] = {
    Fma(kF64, 81.7),       Matrix(kF64, 163.4),       Fma(kF32, 163.4),
    Matrix(kF32, 163.4),   Matrix(kTF32, 653.7),      Matrix(kF16, 1307.4),
    Matrix(kBF16, 1307.4), Matrix(kE4M3FNUZ, 2614.9), Matrix(kE5M2FNUZ, 2614.9),
    Matrix(kI8, 2614.9),
};

// AMD Instinct MI355X data sheet. The 8-bit floats are OCP's formats, and there is no tf32.
// https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/product-briefs/amd-instinct-mi355x-gpu-brochure.pdf
constexpr Ceiling kMi355x[] = {
    Fma(kF64, 78.6),        Matrix(kF64, 78.6),    Fma(kF32, 157.3),        Matrix(kF32, 157.3),
    Matrix(kF16, 2516.6),   Matrix(kBF16, 2516.6), Matrix(kE4M3FN, 5033.2), Matrix(kE5M2, 5033.2),
    Matrix(kE2M1, 10066.3), Matrix(kI8, 5033.2),
};

struct Model {
  std::string_view name;  // as the driver reports it
  int compute_units;
  DataSheet sheet;
};

constexpr std::string_view kHopperPaper = "NVIDIA H100 Tensor Core GPU Architecture";
constexpr std::string_view kA100Sheet = "NVIDIA A100 Tensor Core GPU data sheet";

constexpr Model kModels[] = {
    {"NVIDIA A100-SXM4-40GB", 108, {kA100Sheet, 1555e9, kA100}},
    {"NVIDIA A100-PCIE-40GB", 108, {kA100Sheet, 1555e9, kA100}},
    {"NVIDIA A100-SXM4-80GB", 108, {kA100Sheet, 2039e9, kA100}},
    {"NVIDIA A100 80GB PCIe", 108, {kA100Sheet, 1935e9, kA100}},
    {"NVIDIA H100 80GB HBM3", 132, {kHopperPaper, 3.35e12, kH100Sxm}},
    {"NVIDIA H100 PCIe", 114, {kHopperPaper, 2.0e12, kH100Pcie}},
    {"NVIDIA H100 NVL", 132, {"NVIDIA H100 Tensor Core GPU data sheet", 3.9e12, kHopperNvl}},
    {"NVIDIA H200", 132, {"NVIDIA H200 Tensor Core GPU data sheet", 4.8e12, kH200}},
    {"NVIDIA H200 NVL", 132, {"NVIDIA H200 Tensor Core GPU data sheet", 4.8e12, kHopperNvl}},
    {"NVIDIA B200", 148, {"NVIDIA HGX B200 and DGX B200 data sheets", 8e12, kB200}},
    {"NVIDIA L40S", 142, {"NVIDIA L40S data sheet", 864e9, kL40S}},
    {"NVIDIA GeForce RTX 3090", 82, {"NVIDIA Ampere GA102 GPU Architecture", 936e9, kRtx3090}},
    {"NVIDIA GeForce RTX 4090", 128, {"NVIDIA Ada GPU Architecture", 1008e9, kRtx4090}},
    {"NVIDIA GeForce RTX 5090", 170, {"NVIDIA RTX Blackwell GPU Architecture", 1792e9, kRtx5090}},
    {"AMD Instinct MI250X",
     110,
     {"AMD Instinct MI250X data sheet, one of two dies", 3276.8e9 / 2, kMi250xDie}},
    {"AMD Instinct MI300X", 304, {"AMD Instinct MI300X data sheet", 5.3e12, kMi300x}},
    {"AMD Instinct MI325X", 304, {"AMD Instinct MI325X data sheet", 6e12, kMi300x}},
    {"AMD Instinct MI355X", 256, {"AMD Instinct MI355X data sheet", 8e12, kMi355x}},
};

}  // namespace

std::optional<double> DataSheet::PerSecond(CeilingKind kind, DType dtype) const {
  if (IsMemory(kind)) return bytes_per_second;
  const auto found = std::find_if(arithmetic.begin(), arithmetic.end(), [&](const Ceiling& c) {
    return c.kind == kind && c.dtype == dtype;
  });
  if (found == arithmetic.end()) return std::nullopt;
  return found->per_second;
}

const DataSheet* FindDataSheet(std::string_view model, int compute_units) {
  const auto* const found =
      std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& known) {
        return known.name == model && known.compute_units == compute_units;
      });
  return found == std::end(kModels) ? nullptr : &found->sheet;
}

}  // namespace assay::kernels
