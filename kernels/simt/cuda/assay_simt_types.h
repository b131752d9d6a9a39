// CUDA's vector types, and dim3.
#ifndef ASSAY_SIMT_TYPES_H_
#define ASSAY_SIMT_TYPES_H_

#define ASSAY_SIMT_VECTOR(type, name, align1, align2, align4)                 \
  struct name##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct __attribute__((aligned(align2))) name##2 {                           \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct __attribute__((aligned(align4))) name##4 {                           \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
ASSAY_SIMT_VECTOR(signed char, char, 1, 2, 4)
ASSAY_SIMT_VECTOR(unsigned char, uchar, 1, 2, 4)
ASSAY_SIMT_VECTOR(short, short, 2, 4, 8)
ASSAY_SIMT_VECTOR(unsigned short, ushort, 2, 4, 8)
ASSAY_SIMT_VECTOR(int, int, 4, 8, 16)
ASSAY_SIMT_VECTOR(unsigned, uint, 4, 8, 16)
ASSAY_SIMT_VECTOR(long long, longlong, 8, 16, 16)
ASSAY_SIMT_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
ASSAY_SIMT_VECTOR(float, float, 4, 8, 16)
ASSAY_SIMT_VECTOR(double, double, 8, 16, 16)
#undef ASSAY_SIMT_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#endif  // ASSAY_SIMT_TYPES_H_
