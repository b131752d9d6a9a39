// Adds matrix instructions to port.h: products of 16x16 by 16x8 tiles of 16-bit formats by 32
// lanes, loads of their registers from shared memory, and copies that fill shared memory at the
// same time. One meaning, three compilations.
//
//   MatrixLane()            lane within its group of 32; a 64-wide wave is two groups
//   Multiply<Format>        D += A·B, PTX's mma.m16n8k16: products exact, sums in FP32
//   MultiplyFirst<Format>   D = A·B: D needs no registers before
//   LoadTiles, LoadTilesTransposed
//                           PTX's ldmatrix.x4: four 8x8 tiles; each lane gives a row's address
//   RoundTwo<Format>        two values as the codes of a word
//   FmaTwoHalves            a·b + c of two fp16 numbers at once
//   AsyncCopies             16 bytes a copy, zeros behind the valid bytes; waits work by group
//
// Registers, as PTX lays them out, with g = lane / 4 and t = lane % 4:
//   A [16][16]  word r: row g + 8·(r & 1),  columns 2t + 8·(r / 2) and the next
//   B [16][8]   word r: rows 2t + 8·r and the next, column g
//   D [16][8]   value r: row g + 8·(r / 2), column 2t + (r & 1)
// All lanes of the wave must take part in Multiply and in the loads.
//
// On NVIDIA these are the instructions themselves, and the tensor cores truncate the sums. On AMD
// the products are plain FMAs over values that lanes exchange. The emulator sums the 16 products of
// an element in FP64 and rounds once. There a copy lands when it is waited for, and its target
// holds poison until then.
//
// Sources: NVIDIA, PTX ISA, 9.7.14 (mma, ldmatrix), 9.7.9 (cp.async).
#ifndef ASSAY_KERNELS_RUNTIME_GPU_PORT_MATRIX_H_
#define ASSAY_KERNELS_RUNTIME_GPU_PORT_MATRIX_H_

#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kMatrixLanes = 32;

// Two 16-bit codes in each word, the first in the low half.
struct FragmentA {
  std::uint32_t word[4];
};
struct FragmentB {
  std::uint32_t word[2];
};
struct FragmentD {
  float value[4];
};

ASSAY_DEVICE int MatrixLane() { return Lane() % kMatrixLanes; }

ASSAY_DEVICE std::uint32_t TwoCodes(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16;
}
ASSAY_DEVICE std::uint16_t CodeOf(std::uint32_t word, int half) {
  return static_cast<std::uint16_t>(word >> (16 * half));
}

// The codes of two values, rounded to nearest even.
template <class Format>
ASSAY_DEVICE std::uint32_t RoundTwo(float low, float high) {
#if defined(ASSAY_GPU_CUDA)
  std::uint32_t word;
  if constexpr (Format::kBrain) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#else
  return TwoCodes(Format::Round(low), Format::Round(high));
#endif
}

// a·b + c of both fp16 halves of a word, each rounded once.
ASSAY_DEVICE std::uint32_t FmaTwoHalves(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#if defined(ASSAY_GPU_CUDA)
  std::uint32_t d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
#elif defined(ASSAY_GPU_HIP)
  const __half2 d =
      __hfma2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b),
              *reinterpret_cast<const __half2*>(&c));
  return *reinterpret_cast<const std::uint32_t*>(&d);
#else
  const auto half = [&](int i) {
    const double product =
        static_cast<double>(FromHalf(CodeOf(a, i))) * static_cast<double>(FromHalf(CodeOf(b, i)));
    return static_cast<std::uint16_t>(
        RoundToFormat(product + static_cast<double>(FromHalf(CodeOf(c, i))), DType::kF16));
  };
  return TwoCodes(half(0), half(1));
#endif
}

#if defined(ASSAY_GPU_EMULATED)

#if defined(__SANITIZE_THREAD__)
#define ASSAY_UNORDERED __attribute__((no_sanitize("thread")))  // no device thread runs it
#else
#define ASSAY_UNORDERED
#endif

struct MultiplyRecord {
  FragmentA a;
  FragmentB b;
  FragmentD d;
};

template <class Format>
ASSAY_UNORDERED void MultiplyRecords(simt::Record* lanes) {
  double a[16][16];
  double b[8][16];
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    const auto& r = reinterpret_cast<const MultiplyRecord&>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int w = 0; w < 8; ++w) {
      a[g + 8 * (w / 2 & 1)][2 * t + 8 * (w / 4) + (w & 1)] =
          static_cast<double>(Format::Load(CodeOf(r.a.word[w / 2], w & 1)));
    }
    for (int w = 0; w < 4; ++w) {
      b[g][2 * t + 8 * (w / 2) + (w & 1)] =
          static_cast<double>(Format::Load(CodeOf(r.b.word[w / 2], w & 1)));
    }
  }
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    auto& r = reinterpret_cast<MultiplyRecord&>(lanes[lane]);
    for (int v = 0; v < 4; ++v) {
      const double* row = a[lane / 4 + 8 * (v / 2)];
      const double* column = b[2 * (lane % 4) + (v & 1)];
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
      r.d.value[v] = static_cast<float>(static_cast<double>(r.d.value[v]) + sum);
    }
  }
}

template <class Format>
ASSAY_DEVICE void Multiply(FragmentD& d, const FragmentA& a, const FragmentB& b,
                           simt::Where where = simt::Where::current()) {
  simt::Record record;
  auto& r = reinterpret_cast<MultiplyRecord&>(record);
  r = {a, b, d};
  simt::Combine(record, MultiplyRecords<Format>, where);
  d = r.d;
}

template <class Format>
ASSAY_DEVICE void MultiplyFirst(FragmentD& d, const FragmentA& a, const FragmentB& b,
                                simt::Where where = simt::Where::current()) {
  d = {};
  Multiply<Format>(d, a, b, where);
}

// Finds the rows of a lane's words. Each lane gives the address of one row.
struct RowsRecord {
  const std::uint16_t* row[8];
};
ASSAY_UNORDERED inline void ExchangeRows(simt::Record* lanes) {
  const std::uint16_t* all[kMatrixLanes];
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    all[lane] = reinterpret_cast<const RowsRecord&>(lanes[lane]).row[0];
  }
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    auto& r = reinterpret_cast<RowsRecord&>(lanes[lane]);
    const bool transposed = r.row[1] != nullptr;
    for (int w = 0; w < 8; ++w) {
      r.row[w] = all[w / 2 * 8 + (transposed ? 2 * (lane % 4) + (w & 1) : lane / 4)];
    }
  }
}

template <bool kTransposed>
ASSAY_DEVICE void LoadTilesOf(const std::uint16_t* row, std::uint32_t* words, simt::Where where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) simt::Fail("a misaligned tile row", where);
  simt::Record record;
  auto& r = reinterpret_cast<RowsRecord&>(record);
  r.row[0] = row;
  r.row[1] = kTransposed ? row : nullptr;
  simt::Combine(record, ExchangeRows, where);
  const int g = MatrixLane() / 4, t = MatrixLane() % 4;
  for (int w = 0; w < 4; ++w) {
    words[w] = kTransposed ? TwoCodes(r.row[2 * w][g], r.row[2 * w + 1][g])
                           : TwoCodes(r.row[2 * w][2 * t], r.row[2 * w][2 * t + 1]);
  }
}

ASSAY_DEVICE void LoadTiles(const std::uint16_t* row, std::uint32_t* words,
                            simt::Where where = simt::Where::current()) {
  LoadTilesOf<false>(row, words, where);
}
ASSAY_DEVICE void LoadTilesTransposed(const std::uint16_t* row, std::uint32_t* words,
                                      simt::Where where = simt::Where::current()) {
  LoadTilesOf<true>(row, words, where);
}

class AsyncCopies {
 public:
  // Copies 16 bytes to shared memory: `valid` bytes from `src`, then zeros.
  void Start(void* dst, const void* src, int valid, simt::Where where = simt::Where::current()) {
    if (count_ == kMost) simt::Fail("too many copies under way", where);
    if ((reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src)) % 16 != 0) {
      simt::Fail("a misaligned copy", where);
    }
    std::memset(dst, 0xFF, 16);
    copies_[count_++] = {dst, src, valid, group_};
  }
  void Commit() { ++group_; }
  // Waits until all but the last kLeft groups have landed.
  template <int kLeft>
  void Wait() {
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      if (copies_[i].group + kLeft >= group_) {
        copies_[kept++] = copies_[i];
        continue;
      }
      std::memset(copies_[i].dst, 0, 16);
      std::memcpy(copies_[i].dst, copies_[i].src, static_cast<std::size_t>(copies_[i].valid));
    }
    count_ = kept;
  }

 private:
  static constexpr int kMost = 160;
  struct Copy {
    void* dst;
    const void* src;
    int valid;
    int group;
  };
  Copy copies_[kMost];
  int count_ = 0;
  int group_ = 0;
};

#elif defined(ASSAY_GPU_CUDA)

template <class Format>
ASSAY_DEVICE void Multiply(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  if constexpr (Format::kBrain) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),
          "r"(b.word[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),
          "r"(b.word[1]));
  }
}

template <class Format>
ASSAY_DEVICE void MultiplyFirst(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  if constexpr (Format::kBrain) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d.value[0]), "=f"(d.value[1]), "=f"(d.value[2]), "=f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),
          "r"(b.word[1]), "f"(0.0F));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d.value[0]), "=f"(d.value[1]), "=f"(d.value[2]), "=f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),
          "r"(b.word[1]), "f"(0.0F));
  }
}

ASSAY_DEVICE std::uint32_t SharedAddress(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
ASSAY_DEVICE void LoadTiles(const std::uint16_t* row, std::uint32_t* words) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
ASSAY_DEVICE void LoadTilesTransposed(const std::uint16_t* row, std::uint32_t* words) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}

class AsyncCopies {
 public:
  ASSAY_DEVICE_MEMBER void Start(void* dst, const void* src, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(dst)),
                 "l"(__cvta_generic_to_global(src)), "r"(valid)
                 : "memory");
  }
  ASSAY_DEVICE_MEMBER void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kLeft>
  ASSAY_DEVICE_MEMBER void Wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
  }
};

#else  // HIP

template <class T>
ASSAY_DEVICE T FromMatrixLane(T value, int lane) {
  return ShuffleFrom(value, Lane() / kMatrixLanes * kMatrixLanes + lane);
}

template <class Format>
ASSAY_DEVICE void Multiply(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  const int g = MatrixLane() / 4, t = MatrixLane() % 4;
  ASSAY_UNROLL
  for (int k = 0; k < 16; ++k) {
    const int from = k % 8 / 2;
    const std::uint32_t upper = FromMatrixLane(a.word[k / 8 * 2], g * 4 + from);
    const std::uint32_t lower = FromMatrixLane(a.word[k / 8 * 2 + 1], g * 4 + from);
    const std::uint32_t left = FromMatrixLane(b.word[k / 8], 2 * t * 4 + from);
    const std::uint32_t right = FromMatrixLane(b.word[k / 8], (2 * t + 1) * 4 + from);
    const float row[2] = {Format::Load(CodeOf(upper, k & 1)), Format::Load(CodeOf(lower, k & 1))};
    const float col[2] = {Format::Load(CodeOf(left, k & 1)), Format::Load(CodeOf(right, k & 1))};
    ASSAY_UNROLL
    for (int v = 0; v < 4; ++v) d.value[v] = Fma(row[v / 2], col[v & 1], d.value[v]);
  }
}

template <class Format>
ASSAY_DEVICE void MultiplyFirst(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  d = {};
  Multiply<Format>(d, a, b);
}

ASSAY_DEVICE const std::uint16_t* RowOfLane(const std::uint16_t* row, int lane) {
  const auto bits = reinterpret_cast<unsigned long long>(row);
  return reinterpret_cast<const std::uint16_t*>(FromMatrixLane(bits, lane));
}
ASSAY_DEVICE void LoadTiles(const std::uint16_t* row, std::uint32_t* words) {
  const int g = MatrixLane() / 4, t = MatrixLane() % 4;
  ASSAY_UNROLL
  for (int w = 0; w < 4; ++w) {
    const std::uint16_t* from = RowOfLane(row, w * 8 + g);
    words[w] = TwoCodes(from[2 * t], from[2 * t + 1]);
  }
}
ASSAY_DEVICE void LoadTilesTransposed(const std::uint16_t* row, std::uint32_t* words) {
  const int g = MatrixLane() / 4, t = MatrixLane() % 4;
  ASSAY_UNROLL
  for (int w = 0; w < 4; ++w) {
    const std::uint16_t* first = RowOfLane(row, w * 8 + 2 * t);
    const std::uint16_t* second = RowOfLane(row, w * 8 + 2 * t + 1);
    words[w] = TwoCodes(first[g], second[g]);
  }
}

class AsyncCopies {
 public:
  ASSAY_DEVICE_MEMBER void Start(void* dst, const void* src, int valid) {
    uint4 v = {0, 0, 0, 0};
    if (valid == 16) {
      v = *static_cast<const uint4*>(src);
    } else {
      auto* to = reinterpret_cast<unsigned char*>(&v);
      for (int i = 0; i < valid; ++i) to[i] = static_cast<const unsigned char*>(src)[i];
    }
    *static_cast<uint4*>(dst) = v;
  }
  ASSAY_DEVICE_MEMBER void Commit() {}
  template <int kLeft>
  ASSAY_DEVICE_MEMBER void Wait() {}
};

#endif

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_PORT_MATRIX_H_
