// relaxed: atomic access to elements of plain arrays, without ordering.
//
// std::atomic_ref, which the C++ libraries of macOS and of older Clang lack.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#include <atomic>
#endif

namespace gz {

#if defined(_MSC_VER) && !defined(__clang__)

template <class T>
T load_relaxed(const T& value) {
  return std::atomic_ref<T>(const_cast<T&>(value)).load(std::memory_order_relaxed);
}
template <class T>
void store_relaxed(T& value, T to) {
  std::atomic_ref<T>(value).store(to, std::memory_order_relaxed);
}
template <class T>
T add_relaxed(T& value, T by) {
  return std::atomic_ref<T>(value).fetch_add(by, std::memory_order_relaxed);
}
template <class T>
T or_relaxed(T& value, T bits) {
  return std::atomic_ref<T>(value).fetch_or(bits, std::memory_order_relaxed);
}
// Sets `value` to `to` if it is `expected`; otherwise returns false, with what it is in `expected`.
template <class T>
bool swap_relaxed(T& value, T& expected, T to) {
  return std::atomic_ref<T>(value).compare_exchange_strong(expected, to, std::memory_order_relaxed);
}

#else

template <class T>
T load_relaxed(const T& value) {
  return __atomic_load_n(&value, __ATOMIC_RELAXED);
}
template <class T>
void store_relaxed(T& value, T to) {
  __atomic_store_n(&value, to, __ATOMIC_RELAXED);
}
template <class T>
T add_relaxed(T& value, T by) {
  return __atomic_fetch_add(&value, by, __ATOMIC_RELAXED);
}
template <class T>
T or_relaxed(T& value, T bits) {
  return __atomic_fetch_or(&value, bits, __ATOMIC_RELAXED);
}
// Sets `value` to `to` if it is `expected`; otherwise returns false, with what it is in `expected`.
template <class T>
bool swap_relaxed(T& value, T& expected, T to) {
  return __atomic_compare_exchange_n(&value, &expected, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif

}  // namespace gz
