// fp16 and bf16 for the emulator: each operation rounds once, to nearest even.
#ifndef ASSAY_SIMT_HALF_H_
#define ASSAY_SIMT_HALF_H_

#define ASSAY_SIMT_NARROW(Type, Pair, from_code, to_code)                             \
  struct __attribute__((aligned(2))) Type {                                           \
    unsigned short __x;                                                               \
    Type() = default;                                                                 \
    Type(float v) : __x(to_code(v)) {}                                                \
    Type(double v) : __x(to_code(v)) {}                                               \
    Type(int v) : __x(to_code(v)) {}                                                  \
    Type(unsigned v) : __x(to_code(v)) {}                                             \
    operator float() const { return from_code(__x); }                                 \
  };                                                                                  \
  struct __attribute__((aligned(4))) Pair {                                           \
    Type x, y;                                                                        \
  };                                                                                  \
  inline Type operator+(Type a, Type b) { return Type(double(float(a)) + float(b)); } \
  inline Type operator-(Type a, Type b) { return Type(double(float(a)) - float(b)); } \
  inline Type operator*(Type a, Type b) { return Type(double(float(a)) * float(b)); } \
  inline Type operator/(Type a, Type b) { return Type(double(float(a)) / float(b)); } \
  inline Type operator-(Type a) { return Type(-float(a)); }                           \
  inline Type& operator+=(Type& a, Type b) { return a = a + b; }                      \
  inline Type& operator-=(Type& a, Type b) { return a = a - b; }                      \
  inline Type& operator*=(Type& a, Type b) { return a = a * b; }                      \
  inline Type& operator/=(Type& a, Type b) { return a = a / b; }                      \
  inline bool operator==(Type a, Type b) { return float(a) == float(b); }             \
  inline bool operator<(Type a, Type b) { return float(a) < float(b); }               \
  inline bool operator>(Type a, Type b) { return float(a) > float(b); }               \
  inline bool operator<=(Type a, Type b) { return float(a) <= float(b); }             \
  inline bool operator>=(Type a, Type b) { return float(a) >= float(b); }             \
  inline Type __hadd(Type a, Type b) { return a + b; }                                \
  inline Type __hsub(Type a, Type b) { return a - b; }                                \
  inline Type __hmul(Type a, Type b) { return a * b; }                                \
  inline Type __hdiv(Type a, Type b) { return a / b; }                                \
  inline Type __hneg(Type a) { return -a; }                                           \
  inline Type __hfma(Type a, Type b, Type c) {                                        \
    return Type(double(float(a)) * float(b) + float(c));                              \
  }                                                                                   \
  inline Type __hmax(Type a, Type b) { return Type(fmaxf(a, b)); }                    \
  inline Type __hmin(Type a, Type b) { return Type(fminf(a, b)); }                    \
  inline bool __hlt(Type a, Type b) { return a < b; }                                 \
  inline bool __hgt(Type a, Type b) { return a > b; }                                 \
  inline Pair __hadd2(Pair a, Pair b) { return {a.x + b.x, a.y + b.y}; }              \
  inline Pair __hmul2(Pair a, Pair b) { return {a.x * b.x, a.y * b.y}; }              \
  inline Pair __hfma2(Pair a, Pair b, Pair c) {                                       \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                            \
  }

ASSAY_SIMT_NARROW(__half, __half2, assay_simt_half_to_float, assay_simt_to_half)
ASSAY_SIMT_NARROW(__nv_bfloat16, __nv_bfloat162, assay_simt_bfloat_to_float, assay_simt_to_bfloat)
#undef ASSAY_SIMT_NARROW

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __half __float2half(float v) { return __half(v); }
inline __half __float2half_rn(float v) { return __half(v); }
inline float __half2float(__half v) { return v; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float2half2_rn(float v) { return {__half(v), __half(v)}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half v) { return {v, v}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline float __low2float(__half2 v) { return v.x; }
inline float __high2float(__half2 v) { return v.y; }
inline unsigned short __half_as_ushort(__half v) { return v.__x; }
inline __half __ushort_as_half(unsigned short code) { return __builtin_bit_cast(__half, code); }
inline __half hexp(__half v) { return __half(exp(double(float(v)))); }
inline __half hsqrt(__half v) { return __half(sqrt(double(float(v)))); }

inline __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.__x; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short code) {
  return __builtin_bit_cast(__nv_bfloat16, code);
}

#endif  // ASSAY_SIMT_HALF_H_
