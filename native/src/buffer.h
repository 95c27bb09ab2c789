// Memory that only grows: aligned to cache lines, zero at first, huge pages where they pay.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace dragoman {

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) { reserve(count); }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  // At least `count` numbers. What was in it is lost, and all is zero, when it has to grow.
  T* reserve(size_t count) {
    if (count <= count_) return data_;
    constexpr size_t kHuge = size_t(1) << 21;
    size_t align = count * sizeof(T) >= kHuge ? kHuge : 64;
    size_t bytes = (count * sizeof(T) + align - 1) / align * align;
    void* fresh = std::aligned_alloc(align, bytes);
    if (!fresh) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (align == kHuge) madvise(fresh, bytes, MADV_HUGEPAGE);
#endif
    std::memset(fresh, 0, bytes);
    std::free(data_);
    data_ = static_cast<T*>(fresh);
    count_ = bytes / sizeof(T);
    return data_;
  }

  T* data() const { return data_; }
  size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace dragoman
