// The changes that tests/judge_mutants puts into sources, chosen while the program runs.
//
// A rewritten source holds all its mutants. ASSAY_MUTANT in the environment is the number of the
// one that is active; without it everything computes what the original does. A rewritten operator
// keeps its precedence and its order of evaluation: `a < b` becomes `a < mut::Lt{1, 2} < b`, whose
// first half keeps `a` and the numbers of its mutants. In constant expressions no mutant is active.
#ifndef ASSAY_TESTS_MUTANTS_MUTANT_SWITCH_H_
#define ASSAY_TESTS_MUTANTS_MUTANT_SWITCH_H_

#include <initializer_list>
#include <type_traits>
#include <utility>

namespace mut {

inline constexpr int kMost = 1 << 16;
extern int active;
extern unsigned char reached[kMost];  // by the running test
extern unsigned char no_change[kMost];

inline bool Reach(int id) {
  if (id < 0) return false;
  reached[id] = 1;
  return active == id;
}
constexpr bool On(int id) { return std::is_constant_evaluated() ? false : Reach(id); }
// The operands' types have no such change: no mutant was made.
constexpr void NoChange(int id) {
  if (!std::is_constant_evaluated() && id >= 0) no_change[id] = 1;
}

// `if (c)`, `c ? a : b`
template <class C>
constexpr bool If(int turned, C&& c) {
  return static_cast<bool>(c) != On(turned);
}

struct Not {
  int dropped;
};
template <class C>
constexpr bool operator->*(Not n, C&& c) {
  return static_cast<bool>(c) == On(n.dropped);
}

// `a && b` and `a || b`, by De Morgan: each operand and the result are turned, so that the second
// operand is evaluated when the mutant would evaluate it.
template <class C>
constexpr bool Turn(C&& c, bool turned) {
  return static_cast<bool>(c) != turned;
}

#define ASSAY_MUTANT_RELATION(NAME, OP, EDGE)        \
  struct NAME {                                      \
    int edge, turned;                                \
  };                                                 \
  template <class A>                                 \
  struct NAME##Of {                                  \
    A&& a;                                           \
    NAME m;                                          \
  };                                                 \
  template <class A>                                 \
  constexpr NAME##Of<A> operator OP(A&& a, NAME m) { \
    return {static_cast<A&&>(a), m};                 \
  }                                                  \
  template <class A, class B>                        \
  constexpr bool operator OP(NAME##Of<A> l, B&& b) { \
    if constexpr (requires { l.a EDGE b; }) {        \
      if (On(l.m.edge)) return l.a EDGE b;           \
    } else {                                         \
      NoChange(l.m.edge);                            \
    }                                                \
    if (On(l.m.turned)) return !(l.a OP b);          \
    return l.a OP b;                                 \
  }

ASSAY_MUTANT_RELATION(Lt, <, <=)
ASSAY_MUTANT_RELATION(Le, <=, <)
ASSAY_MUTANT_RELATION(Gt, >, >=)
ASSAY_MUTANT_RELATION(Ge, >=, >)
ASSAY_MUTANT_RELATION(Eq, ==, !=)
ASSAY_MUTANT_RELATION(Ne, !=, ==)

#define ASSAY_MUTANT_ARITHMETIC(NAME, OP, OTHER)               \
  struct NAME {                                                \
    int other;                                                 \
  };                                                           \
  template <class A>                                           \
  struct NAME##Of {                                            \
    A&& a;                                                     \
    NAME m;                                                    \
  };                                                           \
  template <class A>                                           \
  constexpr NAME##Of<A> operator OP(A&& a, NAME m) {           \
    return {static_cast<A&&>(a), m};                           \
  }                                                            \
  template <class A, class B>                                  \
  constexpr auto operator OP(NAME##Of<A> l, B&& b) {           \
    using R = std::decay_t<decltype(l.a OP b)>;                \
    if constexpr (requires { static_cast<R>(l.a OTHER b); }) { \
      if (On(l.m.other)) return static_cast<R>(l.a OTHER b);   \
    } else {                                                   \
      NoChange(l.m.other);                                     \
    }                                                          \
    return static_cast<R>(l.a OP b);                           \
  }

ASSAY_MUTANT_ARITHMETIC(Plus, +, -)
ASSAY_MUTANT_ARITHMETIC(Minus, -, +)
ASSAY_MUTANT_ARITHMETIC(Times, *, /)
ASSAY_MUTANT_ARITHMETIC(Over, /, *)
ASSAY_MUTANT_ARITHMETIC(Modulo, %, /)

#define ASSAY_MUTANT_ASSIGNMENT(NAME, OP, OTHER)     \
  struct NAME {                                      \
    int other;                                       \
  };                                                 \
  template <class B>                                 \
  struct NAME##Of {                                  \
    B&& b;                                           \
    NAME m;                                          \
  };                                                 \
  template <class B>                                 \
  constexpr NAME##Of<B> operator OP(NAME m, B&& b) { \
    return {static_cast<B&&>(b), m};                 \
  }                                                  \
  template <class A, class B>                        \
  constexpr A& operator OP(A& a, NAME##Of<B> r) {    \
    if constexpr (requires { a OTHER r.b; }) {       \
      if (On(r.m.other)) {                           \
        a OTHER r.b;                                 \
        return a;                                    \
      }                                              \
    } else {                                         \
      NoChange(r.m.other);                           \
    }                                                \
    a OP r.b;                                        \
    return a;                                        \
  }

ASSAY_MUTANT_ASSIGNMENT(PlusTo, +=, -=)
ASSAY_MUTANT_ASSIGNMENT(MinusTo, -=, +=)
ASSAY_MUTANT_ASSIGNMENT(TimesTo, *=, /=)
ASSAY_MUTANT_ASSIGNMENT(OverTo, /=, *=)

// std::min and std::max, by value.
template <int kOther, class T>
constexpr T Min(const T& a, const T& b) {
  return On(kOther) != (b < a) ? b : a;
}
template <int kOther, class T>
constexpr T Max(const T& a, const T& b) {
  return On(kOther) != (a < b) ? b : a;
}
template <int kOther, class T>
constexpr T Max(std::initializer_list<T> all) {
  T found = *all.begin();
  for (const T& v : all) found = On(kOther) ? (v < found ? v : found) : (found < v ? v : found);
  return found;
}
template <int kOther, class T>
constexpr T Min(std::initializer_list<T> all) {
  T found = *all.begin();
  for (const T& v : all) found = On(kOther) ? (found < v ? v : found) : (v < found ? v : found);
  return found;
}

// A literal: whole numbers ±1, others doubled and halved (0 becomes 1).
template <class T>
constexpr T Literal(int up, int down, T v) {
  if constexpr (std::is_floating_point_v<T>) {
    if (On(up)) return v == 0 ? T(1) : 2 * v;
    if (On(down)) return v / 2;
  } else if constexpr (std::is_integral_v<T>) {
    if (On(up)) return static_cast<T>(v + 1);
    if (On(down)) return static_cast<T>(v - 1);
  } else {
    NoChange(up);
    NoChange(down);
  }
  return v;
}

// The same in a table of constants, which is then filled when the program starts.
template <class T>
T TableLiteral(int up, int down, T v) {
  return Literal(up, down, v);
}

// A named constant: whole numbers below 16 ±1, others doubled and halved.
template <class T>
constexpr T Constant(int up, int down, T v) {
  if constexpr (std::is_same_v<T, bool>) {
    NoChange(down);
    return v != On(up);
  } else if constexpr (std::is_integral_v<T>) {
    const bool small = v < T(16);
    if (On(up)) return static_cast<T>(small ? v + 1 : 2 * v);
    if (On(down)) return static_cast<T>(small ? v - 1 : v / 2);
    return v;
  } else {
    return Literal(up, down, v);
  }
}

template <class E>
constexpr E Word(int other, E is, E instead) {
  return On(other) ? instead : is;
}

}  // namespace mut

#endif  // ASSAY_TESTS_MUTANTS_MUTANT_SWITCH_H_
