// Makes normal deviates by inverse CDF. It uses exactly rounded operations alone (shifts, a
// leading-zero count, fused multiply-adds) and no sqrt, log or division. So the same word gives the
// same float with hardware fma, with software fma, and under any compiler flag.
//
//   sign = x >> 31; v = (x << 1) | 1; lz = clz(v); w = v << lz
//   f = ((w >> 8) & 0x7fffff) · 2^-23          position within the octave
//   |n| = Horner of kNormalCoefficients[lz] at f, six fma
//
// Octave lz covers the tail probabilities [2^-(lz+2), 2^-(lz+1)) and has its own polynomial. Over
// all 2^31 words: variance 1 − 1.4e-8, kurtosis 3 + 7e-9, largest value 6.338, Kolmogorov-Smirnov
// distance 2.3e-7.
//
// std-only, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_NORMAL_H_
#define ASSAY_KERNELS_NUMERICS_NORMAL_H_

#include <cstdint>

#include "kernels/numerics/bits.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

inline constexpr int kNormalOctaves = 32;
inline constexpr int kNormalDegree = 6;

// [octave][power of f].
inline constexpr float kNormalCoefficients[kNormalOctaves][kNormalDegree + 1] = {
    {0x1.5956a2p-1f, -0x1.92c42cp-1f, 0x1.a93f0ep-3f, -0x1.2e90dep-3f, 0x1.48ed62p-4f,
     -0x1.1ece24p-5f, 0x1.c8a0dap-8f},
    {0x1.267d42p+0f, -0x1.36df12p-1f, 0x1.b0537p-3f, -0x1.093698p-3f, 0x1.33a74p-4f,
     -0x1.06e418p-5f, 0x1.b6bb86p-8f},
    {0x1.88bc16p+0f, -0x1.042b5cp-1f, 0x1.93d81ap-3f, -0x1.e652dep-4f, 0x1.1c3b86p-4f,
     -0x1.e6376ap-6f, 0x1.9639bp-8f},
    {0x1.dcdbf6p+0f, -0x1.c69d0ep-2f, 0x1.76499cp-3f, -0x1.c3081ep-4f, 0x1.088c74p-4f,
     -0x1.c54226p-6f, 0x1.7b026ep-8f},
    {0x1.13b226p+1f, -0x1.97e3e6p-2f, 0x1.5c6292p-3f, -0x1.a597c6p-4f, 0x1.eff6aap-5f,
     -0x1.a978dp-6f, 0x1.6408b2p-8f},
    {0x1.35729p+1f, -0x1.749e44p-2f, 0x1.465134p-3f, -0x1.8cae2ap-4f, 0x1.d3c768p-5f,
     -0x1.91c742p-6f, 0x1.506abap-8f},
    {0x1.547d14p+1f, -0x1.58d7a8p-2f, 0x1.33815cp-3f, -0x1.7759a4p-4f, 0x1.bb8892p-5f,
     -0x1.7d58c8p-6f, 0x1.3f7aa6p-8f},
    {0x1.715c78p+1f, -0x1.42463p-2f, 0x1.23567cp-3f, -0x1.64e29p-4f, 0x1.a673c4p-5f,
     -0x1.6b8aa6p-6f, 0x1.30b384p-8f},
    {0x1.8c734cp+1f, -0x1.2f7d48p-2f, 0x1.154e28p-3f, -0x1.54bc6ap-4f, 0x1.93f0f2p-5f,
     -0x1.5be01p-6f, 0x1.23af4ep-8f},
    {0x1.a60a6cp+1f, -0x1.1f8d2ap-2f, 0x1.0901bap-3f, -0x1.467b22p-4f, 0x1.838ad2p-5f,
     -0x1.4df894p-6f, 0x1.181f18p-8f},
    {0x1.be596ap+1f, -0x1.11d10cp-2f, 0x1.fc42b6p-4f, -0x1.39caep-4f, 0x1.74e604p-5f,
     -0x1.4188ep-6f, 0x1.0dc52ap-8f},
    {0x1.d58bcep+1f, -0x1.05d39ap-2f, 0x1.e8dd96p-4f, -0x1.2e69eap-4f, 0x1.67ba8cp-5f,
     -0x1.365576p-6f, 0x1.0470b2p-8f},
    {0x1.ebc46p+1f, -0x1.f67d98p-3f, 0x1.d77226p-4f, -0x1.242422p-4f, 0x1.5bcf12p-5f,
     -0x1.2c2ed6p-6f, 0x1.f7f556p-9f},
    {0x1.008fbap+2f, -0x1.e3a3f8p-3f, 0x1.c7b29p-4f, -0x1.1acfbcp-4f, 0x1.50f56p-5f, -0x1.22eeap-6f,
     0x1.e88706p-9f},
    {0x1.0ada38p+2f, -0x1.d2b712p-3f, 0x1.b96056p-4f, -0x1.124ae2p-4f, 0x1.4707e2p-5f,
     -0x1.1a7588p-6f, 0x1.da62e2p-9f},
    {0x1.14cb78p+2f, -0x1.c36954p-3f, 0x1.ac48bcp-4f, -0x1.0a79dep-4f, 0x1.3de7aep-5f,
     -0x1.12a9c6p-6f, 0x1.cd5e68p-9f},
    {0x1.1e6bc6p+2f, -0x1.b57d26p-3f, 0x1.a04226p-4f, -0x1.0345c8p-4f, 0x1.357b2p-5f,
     -0x1.0b75eap-6f, 0x1.c15632p-9f},
    {0x1.27c23ep+2f, -0x1.a8c0e8p-3f, 0x1.952a26p-4f, -0x1.f93716p-5f, 0x1.2dacc6p-5f,
     -0x1.04c8p-6f, 0x1.b62c96p-9f},
    {0x1.30d502p+2f, -0x1.9d0c2ep-3f, 0x1.8ae3fap-4f, -0x1.ecd62ep-5f, 0x1.266a84p-5f,
     -0x1.fd21bp-7f, 0x1.abc87ap-9f},
    {0x1.39a964p+2f, -0x1.923dap-3f, 0x1.815776p-4f, -0x1.e14db6p-5f, 0x1.1fa502p-5f,
     -0x1.f18716p-7f, 0x1.a2148p-9f},
    {0x1.424416p+2f, -0x1.88397ep-3f, 0x1.78701p-4f, -0x1.d6868p-5f, 0x1.194f1ep-5f,
     -0x1.e6aa1cp-7f, 0x1.98fe5cp-9f},
    {0x1.4aa936p+2f, -0x1.7ee87ap-3f, 0x1.701c4ap-4f, -0x1.cc6caap-5f, 0x1.135d88p-5f,
     -0x1.dc77b4p-7f, 0x1.907644p-9f},
    {0x1.52dc6ep+2f, -0x1.7636d6p-3f, 0x1.684d1p-4f, -0x1.c2ef06p-5f, 0x1.0dc678p-5f,
     -0x1.d2df5cp-7f, 0x1.886e8ap-9f},
    {0x1.5ae1p+2f, -0x1.6e13bcp-3f, 0x1.60f564p-4f, -0x1.b9feaep-5f, 0x1.08816cp-5f,
     -0x1.c9d2b8p-7f, 0x1.80db4p-9f},
    {0x1.62b9dcp+2f, -0x1.6670b6p-3f, 0x1.5a09f6p-4f, -0x1.b18ea2p-5f, 0x1.0386f2p-5f,
     -0x1.c1452ep-7f, 0x1.79b1f2p-9f},
    {0x1.6a69a2p+2f, -0x1.5f4142p-3f, 0x1.5380e4p-4f, -0x1.a99376p-5f, 0x1.fda0fcp-6f,
     -0x1.b92bacp-7f, 0x1.72e96ep-9f},
    {0x1.71f2b6p+2f, -0x1.587a86p-3f, 0x1.4d5184p-4f, -0x1.a20322p-5f, 0x1.f4b09ap-6f,
     -0x1.b17c6ep-7f, 0x1.6c7994p-9f},
    {0x1.795742p+2f, -0x1.5213p-3f, 0x1.47742cp-4f, -0x1.9ad4bep-5f, 0x1.ec328p-6f, -0x1.aa2ec6p-7f,
     0x1.665b2ep-9f},
    {0x1.80993ep+2f, -0x1.4c025ep-3f, 0x1.41e21ap-4f, -0x1.940066p-5f, 0x1.e41d94p-6f,
     -0x1.a33afap-7f, 0x1.6087cep-9f},
    {0x1.87ba78p+2f, -0x1.464142p-3f, 0x1.3c9544p-4f, -0x1.8d7f0cp-5f, 0x1.dc69b4p-6f,
     -0x1.9c9a26p-7f, 0x1.5af9bap-9f},
    {0x1.8ebc94p+2f, -0x1.40c928p-3f, 0x1.37884cp-4f, -0x1.874a64p-5f, 0x1.d50f96p-6f,
     -0x1.964616p-7f, 0x1.55abc6p-9f},
    {0x1.95a118p+2f, -0x1.3b9446p-3f, 0x1.32b662p-4f, -0x1.815cc8p-5f, 0x1.ce08b6p-6f,
     -0x1.90394p-7f, 0x1.509956p-9f},
};

// A uniform number in [0, 1): the top 24 bits of the word, exact in float.
constexpr float UniformFromWord(std::uint32_t x) { return static_cast<float>(x >> 8) * 0x1p-24f; }

// The normal deviate of a word. `coefficients` is the table above. Device code cannot read an array
// of the host, so it passes its own copy, which may be of any type that is indexed twice.
template <class Coefficients>
ASSAY_HOST_DEVICE inline float NormalFromWord(std::uint32_t x, const Coefficients& coefficients) {
  const std::uint32_t v = (x << 1) | 1u;
  const int lz = CountLeadingZeros(v);
  const std::uint32_t w = v << lz;
  const float f = static_cast<float>((w >> 8) & 0x7fffffu) * 0x1p-23f;
  const float* c = coefficients[lz];
  float r = c[kNormalDegree];
  for (int k = kNormalDegree - 1; k >= 0; --k) r = __builtin_fmaf(r, f, c[k]);
  return (x >> 31) != 0 ? -r : r;
}

// The same on the host.
inline float NormalFromWord(std::uint32_t x) { return NormalFromWord(x, kNormalCoefficients); }

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_NORMAL_H_
