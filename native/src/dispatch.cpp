// Which kernels: those the processor can run, the best first, or the one that DRAGOMAN_ISA names.
#include "dispatch.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__linux__) && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define DECLARE(name)                        \
  namespace name {                           \
  extern const dragoman::Kernels table;      \
  }
DECLARE(portable)
DECLARE(neon)
DECLARE(avx2)
DECLARE(avxvnni)
DECLARE(avx512)
DECLARE(avx512bf16)
DECLARE(amx)
DECLARE(emulated_avx512)
DECLARE(emulated_amx)

namespace dragoman {
namespace {

#if defined(__x86_64__)
[[maybe_unused]] bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

[[maybe_unused]] bool has_avxvnni() {
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

[[maybe_unused]] bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

[[maybe_unused]] bool has_avx512bf16() {
  unsigned a, b, c, d;
  return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

bool has_amx() {
  unsigned a, b, c, d;
  constexpr unsigned kTiles = 1u << 22 | 1u << 24 | 1u << 25;  // of bfloat16, at all, of int8
  return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTiles) == kTiles;
}
#else
bool has_amx() { return false; }
#endif

// The operating system must be asked to keep the tiles, once for a process.
bool may_use_amx() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const Sets& all() {
  static const Sets found = find_sets(has_amx, may_use_amx);
  return found;
}

const Kernels& chosen() {
  const char* wanted = std::getenv("DRAGOMAN_ISA");
  if (!wanted || !*wanted) return *all().usable.front();
  std::string names;
  for (const Kernels* one : all().usable) {
    if (!std::strcmp(one->name, wanted)) return *one;
    names += std::string(names.empty() ? "" : ", ") + one->name;
  }
  throw std::invalid_argument("DRAGOMAN_ISA=" + std::string(wanted) + " is not one of what this processor has: " + names);
}

}  // namespace

Sets find_sets([[maybe_unused]] bool (*has_amx)(), [[maybe_unused]] bool (*may_use_amx)()) {
  Sets sets;
  std::vector<const Kernels*>& found = sets.usable;
#if defined(DRAGOMAN_HAVE_AMX)
  if (has_amx()) {
    if (may_use_amx())
      found.push_back(&amx::table);
    else
      sets.refused = amx::table.name;
  }
#endif
#if defined(DRAGOMAN_HAVE_AVX512BF16)
  if (has_avx512bf16()) found.push_back(&avx512bf16::table);
#endif
#if defined(DRAGOMAN_HAVE_AVX512)
  if (has_avx512()) found.push_back(&avx512::table);
#endif
#if defined(DRAGOMAN_HAVE_AVXVNNI)
  if (has_avxvnni()) found.push_back(&avxvnni::table);
#endif
#if defined(DRAGOMAN_HAVE_AVX2)
  if (has_avx2()) found.push_back(&avx2::table);
#endif
#if defined(DRAGOMAN_HAVE_NEON) && defined(__linux__)
  if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) found.push_back(&neon::table);
#elif defined(DRAGOMAN_HAVE_NEON)
  found.push_back(&neon::table);
#endif
  found.push_back(&portable::table);
#if defined(DRAGOMAN_HAVE_EMULATED_AVX512)
  found.push_back(&emulated_avx512::table);
#endif
#if defined(DRAGOMAN_HAVE_EMULATED_AMX)
  found.push_back(&emulated_amx::table);
#endif
  return sets;
}

const Kernels& kernels() {
  static const Kernels& one = chosen();
  return one;
}

const Kernels* const* all_kernels(int* count) {
  *count = int(all().usable.size());
  return all().usable.data();
}

const char* refused_kernels() { return all().refused.c_str(); }

}  // namespace dragoman
