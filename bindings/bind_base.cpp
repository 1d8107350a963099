// bind_base: exceptions, threads, memory figures, progress.
#include <new>

#include "base/error.h"
#include "base/ids.h"
#include "base/threads.h"
#include "bindings.h"

namespace gz::bindings {

nb::dlpack::dtype dlpack_dtype(DType dtype) {
  using C = nb::dlpack::dtype_code;
  const auto make = [&](C code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(dtype_bytes(dtype) * 8), 1};
  };
  switch (dtype) {
    case DType::kFloat64:
    case DType::kFloat32:
    case DType::kFloat16:
      return make(C::Float);
    case DType::kInt64:
    case DType::kInt32:
    case DType::kInt16:
    case DType::kInt8:
      return make(C::Int);
    case DType::kBool:
      return make(C::Bool);
    case DType::kBFloat16:
    case DType::kUInt8:
    case DType::kUInt32:
    case DType::kUInt64:
      break;
  }
  return make(C::UInt);
}

void PyProgress::report(const char* phase, uint64_t done, uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  const bool fresh = last_phase_ != phase;
  if (!fresh && done < total && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  last_phase_ = phase;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (!callback_.is_none()) callback_(phase, done, total);
}

void Interrupts::report(const char*, uint64_t, uint64_t) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

namespace {

// The classes live in graphzero/errors.py, so that they have docstrings and multiple bases; this maps errors to them.
void raise_as(const char* name, const char* message) {
  nb::object type = nb::module_::import_("graphzero.errors").attr(name);
  PyErr_SetString(type.ptr(), message);
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const FormatError& e) {
    raise_as("FormatError", e.what());
  } catch (const InputError& e) {
    raise_as("InputError", e.what());
  } catch (const BudgetError& e) {
    nb::object type = nb::module_::import_("graphzero.errors").attr("BudgetError");
    nb::object error = type(e.what(), e.needed);
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (const StorageError& e) {
    nb::object type = nb::module_::import_("graphzero.errors").attr("StorageError");
    nb::object error = type(e.code, e.what(), e.path);
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (const IndexError& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const ArgumentError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const Cancelled&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const Error& e) {
    raise_as("GraphZeroError", e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory; try a smaller request");
  }
}

}  // namespace

void bind_base(nb::module_& m) {
  nb::register_exception_translator(translate);
  m.def(
      "check_ids",
      [](const Ids& ids, const std::string& name, uint64_t size, const std::string& of, const std::string& where) {
        check_ids(span_of(ids), name, {size, of, where});
      },
      nb::arg("ids"), nb::arg("name"), nb::arg("size"), nb::arg("of"), nb::arg("where") = "");
  m.def("default_threads", &default_threads);
  m.def("set_default_threads", &set_default_threads, nb::arg("threads"));
  m.def("bytes_held", [] {
    nb::dict held;
    for (int i = 0; i < kPurposes; ++i)
      held[purpose_name(static_cast<Purpose>(i))] = bytes_held(static_cast<Purpose>(i));
    held["total"] = bytes_held();
    held["peak"] = bytes_held_peak();
    held["idle"] = BufferPool::of_process().idle_bytes();
    return held;
  });
  m.def("reset_bytes_held_peak", &reset_bytes_held_peak);
  m.def("clear_idle_buffers", [] { BufferPool::of_process().clear(); });
}

}  // namespace gz::bindings
