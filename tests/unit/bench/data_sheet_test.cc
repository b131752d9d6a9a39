// The table of data sheets: whose figures it has, and that no other card gets them.
#include "kernels/bench/data_sheet.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace assay {
namespace {

double Tera(const char* model, int units, CeilingKind kind, DType dtype) {
  const DataSheet* sheet = FindDataSheet(model, units);
  if (sheet == nullptr) return -1;
  return sheet->PerSecond(kind, dtype).value_or(0) / 1e12;
}

TEST(DataSheets, TheLabsCardsWithTheirDenseFigures) {
  const auto half = [](const char* model, int units) {
    return Tera(model, units, CeilingKind::kMatrix, DType::kF16);
  };
  EXPECT_NEAR(half("NVIDIA H100 80GB HBM3", 132), 989.4, 1e-9);
  EXPECT_NEAR(half("NVIDIA A100-SXM4-80GB", 108), 312, 1e-9);
  EXPECT_NEAR(half("NVIDIA GeForce RTX 4090", 128), 165.2, 1e-9);
  EXPECT_NEAR(half("NVIDIA GeForce RTX 3090", 82), 71, 1e-9);
  EXPECT_NEAR(half("AMD Instinct MI300X", 304), 1307.4, 1e-9);
  EXPECT_NEAR(half("AMD Instinct MI250X", 110), 191.5, 1e-9) << "383 is two dies";
  // And those that were added.
  EXPECT_NEAR(half("NVIDIA H200", 132), 989.5, 1e-9);
  EXPECT_NEAR(half("NVIDIA B200", 148), 2250, 1e-9);
  EXPECT_NEAR(half("AMD Instinct MI325X", 304), 1307.4, 1e-9);
  EXPECT_NEAR(half("AMD Instinct MI355X", 256), 2516.6, 1e-9);
  EXPECT_NEAR(half("NVIDIA L40S", 142), 362.05, 1e-9);
  EXPECT_NEAR(half("NVIDIA GeForce RTX 5090", 170), 209.5, 1e-9);
}

TEST(DataSheets, BoardsOfOneNameAreTold) {
  const auto half = [](const char* model, int units) {
    return Tera(model, units, CeilingKind::kMatrix, DType::kBF16);
  };
  EXPECT_NEAR(half("NVIDIA H100 PCIe", 114), 756, 1e-9);
  EXPECT_NEAR(half("NVIDIA H100 NVL", 132), 835.5, 1e-9);
  EXPECT_NEAR(half("NVIDIA H200 NVL", 132), 835.5, 1e-9);
  const auto memory = [](const char* model, int units) {
    return Tera(model, units, CeilingKind::kRead, DType::kUnspecified);
  };
  EXPECT_NEAR(memory("NVIDIA A100-SXM4-40GB", 108), 1.555, 1e-9);
  EXPECT_NEAR(memory("NVIDIA A100 80GB PCIe", 108), 1.935, 1e-9);
  EXPECT_NEAR(memory("NVIDIA H100 80GB HBM3", 132), 3.35, 1e-9);
  EXPECT_NEAR(memory("AMD Instinct MI250X", 110), 1.6384, 1e-9);
}

TEST(DataSheets, WhatIsNotTheCardHasNoFigure) {
  for (const char* model :
       {"", "NVIDIA H100", "H100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 80GB HBM2e",
        "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GH200 480GB",
        "NVIDIA L40", "AMD Instinct MI300A", "AMD Instinct MI250", "AMD EPYC 9755"}) {
    for (const int units : {1, 110, 114, 128, 132, 304}) {
      EXPECT_EQ(FindDataSheet(model, units), nullptr) << model;
    }
  }
  // A partition, or a card cut down, under a known name.
  EXPECT_EQ(FindDataSheet("AMD Instinct MI300X", 38), nullptr);
  EXPECT_EQ(FindDataSheet("NVIDIA H100 80GB HBM3", 114), nullptr);
}

TEST(DataSheets, WhatASheetDoesNotSayIsAbsent) {
  // The fnuz formats are CDNA 3's, OCP's everyone else's.
  const DataSheet* cdna3 = FindDataSheet("AMD Instinct MI300X", 304);
  const DataSheet* hopper = FindDataSheet("NVIDIA H200", 132);
  ASSERT_TRUE(cdna3 != nullptr && hopper != nullptr);
  EXPECT_TRUE(cdna3->PerSecond(CeilingKind::kMatrix, DType::kE4M3FNUZ).has_value());
  EXPECT_FALSE(cdna3->PerSecond(CeilingKind::kMatrix, DType::kE4M3FN).has_value());
  EXPECT_TRUE(hopper->PerSecond(CeilingKind::kMatrix, DType::kE4M3FN).has_value());
  EXPECT_FALSE(hopper->PerSecond(CeilingKind::kMatrix, DType::kE4M3FNUZ).has_value());
  EXPECT_FALSE(hopper->PerSecond(CeilingKind::kFma, DType::kBF16).has_value());
  EXPECT_FALSE(hopper->PerSecond(CeilingKind::kUnspecified, DType::kF16).has_value());
  EXPECT_FALSE(hopper->source.empty());
}

}  // namespace
}  // namespace assay
