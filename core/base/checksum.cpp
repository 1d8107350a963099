// checksum: CRC-32C by instruction where the processor has one, by table elsewhere.
#include "base/checksum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "base/threads.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GZ_CRC_X86 1
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__) && (defined(__linux__) || defined(__ARM_FEATURE_CRC32))
#define GZ_CRC_ARM 1
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace gz {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // reflected

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    t[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
  }
  return t;
}

constexpr Tables kTables = make_tables();

uint64_t load64(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// GF(2): what appending `zeros` zero bytes does to a CRC, as 4 tables of 256 so that it costs four look-ups. It is
// linear, so 32 bits are followed through the zeros and the rest is added up.
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> table{};
  explicit constexpr Shift(size_t zeros) {
    for (size_t k = 0; k < 4; ++k) {
      for (uint32_t bit = 1; bit < 256; bit *= 2) {
        uint32_t crc = bit << (8 * k);
        for (size_t z = 0; z < zeros; ++z) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
        for (uint32_t below = 0; below < bit; ++below) table[k][bit + below] = crc ^ table[k][below];
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
  }
};

#if GZ_CRC_X86 || GZ_CRC_ARM
constexpr size_t kLane =
    1024;  // bytes per lane: three run at once, since the instruction takes 3 cycles but starts every one

#if GZ_CRC_X86
// Newer versions of Clang count crc32 apart: a baseline that excludes it by name keeps it excluded with sse4.2.
#if defined(__clang__) && __clang_major__ >= 14
#define GZ_CRC_TARGET __attribute__((target("sse4.2,crc32")))
#else
#define GZ_CRC_TARGET __attribute__((target("sse4.2")))
#endif
#define GZ_CRC64(crc, word) static_cast<uint32_t>(_mm_crc32_u64(crc, word))
#define GZ_CRC8(crc, byte) _mm_crc32_u8(crc, byte)
bool has_crc_instruction() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_2) != 0;
}
#else
// Builtins: <arm_acle.h> declares the intrinsics only where the whole file is compiled for them.
#ifdef __clang__
#ifdef __ARM_FEATURE_CRC32
#define GZ_CRC_TARGET
#else
#define GZ_CRC_TARGET __attribute__((target("crc")))
#endif
#define GZ_CRC64(crc, word) __builtin_arm_crc32cd(crc, word)
#define GZ_CRC8(crc, byte) __builtin_arm_crc32cb(crc, byte)
#else
#define GZ_CRC_TARGET __attribute__((target("+crc")))
#define GZ_CRC64(crc, word) __builtin_aarch64_crc32cx(crc, word)
#define GZ_CRC8(crc, byte) __builtin_aarch64_crc32cb(crc, byte)
#endif
#ifdef __linux__
bool has_crc_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
bool has_crc_instruction() { return true; }  // every Mac with an ARM processor
#endif
#endif

const bool g_has_instruction = has_crc_instruction();

GZ_CRC_TARGET uint32_t crc32c_instruction(const std::byte* at, size_t size, uint32_t crc) {
  static constexpr Shift past_one(kLane), past_two(2 * kLane);
  while (size >= 3 * kLane) {
    uint32_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      a = GZ_CRC64(a, load64(at + i));
      b = GZ_CRC64(b, load64(at + kLane + i));
      c = GZ_CRC64(c, load64(at + 2 * kLane + i));
    }
    crc = past_two(a) ^ past_one(b) ^ c;
    at += 3 * kLane;
    size -= 3 * kLane;
  }
  for (; size >= 8; at += 8, size -= 8) crc = GZ_CRC64(crc, load64(at));
  for (; size > 0; ++at, --size) crc = GZ_CRC8(crc, static_cast<uint8_t>(*at));
  return crc;
}
#endif

}  // namespace

uint32_t crc32c_plain(std::span<const std::byte> bytes, uint32_t crc) {
  const std::byte* at = bytes.data();
  size_t size = bytes.size();
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    const uint64_t word = load64(at) ^ crc;  // the file and every supported machine are little-endian
    crc = kTables[7][word & 0xff] ^ kTables[6][(word >> 8) & 0xff] ^ kTables[5][(word >> 16) & 0xff] ^
          kTables[4][(word >> 24) & 0xff] ^ kTables[3][(word >> 32) & 0xff] ^ kTables[2][(word >> 40) & 0xff] ^
          kTables[1][(word >> 48) & 0xff] ^ kTables[0][word >> 56];
  }
  for (; size > 0; ++at, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(*at)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if GZ_CRC_X86 || GZ_CRC_ARM
  if (g_has_instruction) return ~crc32c_instruction(bytes.data(), bytes.size(), ~crc);
#endif
  return crc32c_plain(bytes, crc);
}

// A zero byte after a message is a linear map of its CRC; that of n bytes is made of those of 1, 2, 4, ... bytes.
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes) {
  using Matrix = std::array<uint32_t, 32>;  // column i: where bit i goes
  const auto apply = [](const Matrix& m, uint32_t bits) {
    uint32_t sum = 0;
    for (size_t i = 0; bits != 0; ++i, bits >>= 1) sum ^= (bits & 1) != 0 ? m[i] : 0;
    return sum;
  };
  Matrix zeros;
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t bit = uint32_t{1} << i;
    zeros[i] = (bit >> 8) ^ kTables[0][bit & 0xff];
  }
  for (; second_bytes != 0; second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = apply(zeros, first);
    Matrix twice;
    for (size_t i = 0; i < 32; ++i) twice[i] = apply(zeros, zeros[i]);
    zeros = twice;
  }
  return first ^ second;
}

void Digest::add(uint32_t block_crc) { value_ = mix(value_ ^ ((blocks_++ << 32) | block_crc)); }

void Digest::add_blocks(std::span<const std::byte> bytes, int threads) {
  std::vector<uint32_t> crcs((bytes.size() + kBlockBytes - 1) / kBlockBytes);
  parallel_for(crcs.size(), 1, threads, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const size_t at = i * kBlockBytes;
      crcs[i] = crc32c(bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at)));
    }
  });
  for (const uint32_t crc : crcs) add(crc);
}

void StreamDigest::add(std::span<const std::byte> bytes) {
  sum_blocks(bytes, open_.bytes, open_, [this](const BlockSum& block) { digest_.add(block.crc); });
}

uint64_t StreamDigest::finish() {
  if (open_.bytes > 0) digest_.add(open_.crc);
  open_ = {};
  return digest_.value();
}

uint64_t digest(std::span<const std::byte> bytes, int threads) {
  Digest sum;
  sum.add_blocks(bytes, threads);
  return sum.value();
}

}  // namespace gz
