// text_chunks: pread in large blocks; a chunk owns the lines that start in it.
#include "compile/text/text_chunks.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace gz {
namespace {

constexpr size_t kTail = size_t{4} << 10;  // initial read past a chunk for the end of its last line

}  // namespace

std::string shown(std::string_view field) {
  std::string out;
  out += '\'';
  for (const char c : field.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 32 || byte == 127 ? '?' : c;
  }
  out += field.size() > 40 ? "...'" : "'";
  return out;
}

void LineAccount::add(const ChunkLines& chunk) {
  for (const BadLine& bad : chunk.bad) {
    const std::string message = text(name_, ": line ", lines_ + bad.line, ": ", bad.message);
    if (!skip_) throw InputError(message);
    if (examples_.size() < ChunkLines::kExamples) examples_.push_back(message);
  }
  lines_ += chunk.lines;
  skipped_ += chunk.skipped;
}

void ChunkReader::read_to(const File& file, uint64_t begin, size_t bytes) {
  if (buffer_.size() < bytes + kTextPadding) {
    Buffer larger(bytes + kTextPadding, Purpose::kCompile);
    if (filled_ > 0) std::memcpy(larger.data(), buffer_.data(), filled_);
    buffer_ = std::move(larger);
  }
  while (filled_ < bytes && !at_end_) {
    const size_t got = file.read_some_at({buffer_.data() + filled_, bytes - filled_}, begin + filled_);
    at_end_ = got == 0;
    filled_ += got;
  }
}

std::string_view ChunkReader::read(const File& file, uint64_t from, uint64_t begin, uint64_t end) {
  const uint64_t start = begin > from ? begin - 1 : begin;  // the previous byte shows whether a line starts at `begin`
  filled_ = 0;
  at_end_ = false;
  read_to(file, start, static_cast<size_t>(end - start) + kTail);
  const auto* data = reinterpret_cast<const char*>(buffer_.data());
  const size_t own = std::min<size_t>(static_cast<size_t>(end - start), filled_);
  size_t first = 0;
  if (start < begin) {
    const void* newline = std::memchr(data, '\n', own);
    if (newline == nullptr) return {};
    first = static_cast<size_t>(static_cast<const char*>(newline) - data) + 1;
  }
  if (first >= own) return {};  // belongs to the next chunk
  size_t looked = own - 1;      // the last line that starts here may end at the last byte
  for (;;) {
    const void* newline = looked < filled_ ? std::memchr(data + looked, '\n', filled_ - looked) : nullptr;
    if (newline != nullptr) {
      return {data + first, static_cast<size_t>(static_cast<const char*>(newline) - data) + 1 - first};
    }
    if (at_end_) return {data + first, filled_ - first};
    looked = filled_;
    if (filled_ - own > kLongestLine) fail<InputError>(file.path(), ": a line is longer than ", kLongestLine, " bytes");
    read_to(file, start, filled_ + std::max(kTail, filled_ / 2));
    data = reinterpret_cast<const char*>(buffer_.data());
  }
}

std::string_view LineCarry::push(std::string_view block, bool last) {
  text_.resize(text_.size() >= kTextPadding ? text_.size() - kTextPadding : 0);
  text_.erase(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(whole_));
  const size_t kept = text_.size();
  text_.insert(text_.end(), block.begin(), block.end());
  const size_t size = text_.size();
  if (size > kLongestLine + block.size()) fail<InputError>("a line is longer than ", kLongestLine, " bytes");
  text_.resize(size + kTextPadding);
  whole_ = size;
  if (!last) {
    size_t end = size;
    while (end > kept && text_[end - 1] != '\n') --end;
    whole_ = end > kept ? end : 0;
  }
  return {text_.data(), whole_};
}

std::vector<std::string_view> cut_lines(std::string_view all, size_t bytes) {
  std::vector<std::string_view> parts;
  while (!all.empty()) {
    size_t end = all.size();
    if (bytes < all.size()) {
      const size_t newline = all.find('\n', bytes - 1);
      end = newline == std::string_view::npos ? all.size() : newline + 1;
    }
    parts.push_back(all.substr(0, end));
    all.remove_prefix(end);
  }
  return parts;
}

}  // namespace gz
