// The stream front in Python. write() is a raw CPython method on the pybind11 class: pybind11's
// dispatcher alone takes longer than the built-in open().write() does (docs/performance.md).
//
// A small write keeps the GIL, because releasing it costs more than the write; the stream is
// thread-safe without it. Lock order: the GIL before the stream's mutex. A thread that holds the
// mutex never asks for the GIL, and a call that may wait (for the mutex, a turn, the window, the
// store) releases the GIL first.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "buffers.h"
#include "errors.h"
#include "history.h"
#include "kept_bytes.h"
#include "opened_stream.h"
#include "register.h"
#include "signals.h"
#include "statistics.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using stream::OutputStream;

using Counts = std::map<std::string, std::int64_t>;

// The native stream of a Python object, without pybind11's dispatcher. Null, with TypeError set, if
// __init__ never ran.
OutputStream* stream_of(PyObject* self) noexcept {
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  void* pointer = instance->simple_layout ? instance->simple_value_holder[0]
                                          : instance->nonsimple.values_and_holders[0];
  if (pointer == nullptr) PyErr_SetString(PyExc_TypeError, "the stream was never opened");
  return static_cast<OutputStream*>(pointer);
}

// Copying less takes less time than keeping it.
constexpr std::size_t kKeptAtLeast = std::size_t{32} << 10U;

template <typename Data>
bool append(PyObject* self, OutputStream& stream, const Data& data) {
  if (stream.try_write(data)) {
    release_kept_bytes();
    return true;
  }
  Status written;
  {
    const ReleasedGil unlocked;
    SignalCheck signals(self);
    written = stream.write(data, signals);
  }
  release_kept_bytes();
  if (written.ok()) return PyErr_Occurred() == nullptr;
  set_exception(written);
  return false;
}

bool append_bytes(PyObject* self, OutputStream& stream, PyObject* bytes) {
  const ByteView data{reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes)),
                      static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
  if (data.size() < kKeptAtLeast || !stream.takes_references()) return append(self, stream, data);
  bool is_written = false;
  {
    const stream::Owner owner = keep_bytes(bytes);
    is_written = append(self, stream, OutputStream::Piece{data, &owner});
  }
  release_kept_bytes();  // also these, if the stream does not want them
  return is_written;
}

// One of write()'s numbers. A number no Py_ssize_t holds is out of every buffer's range.
bool parse_number(PyObject* object, Py_ssize_t& number) noexcept {
  number = PyNumber_AsSsize_t(object, PyExc_IndexError);
  return number != -1 || PyErr_Occurred() == nullptr;
}

bool check_range(const OutputStream& stream, Py_ssize_t off, Py_ssize_t len, Py_ssize_t size) {
  if (off >= 0 && len >= 0 && off <= size && len <= size - off) return true;
  PyErr_Format(PyExc_IndexError, "write: off=%zd, len=%zd is outside a buffer of %zd bytes: '%s'",
               off, len, size, stream.path().c_str());
  return false;
}

PyObject* write_range(PyObject* self, OutputStream& stream, ByteView data, PyObject* off_object,
                      PyObject* len_object) {
  const auto size = static_cast<Py_ssize_t>(data.size());
  Py_ssize_t off = 0;
  if (off_object != nullptr && !parse_number(off_object, off)) return nullptr;
  Py_ssize_t len = off >= 0 && off <= size ? size - off : 0;
  if (len_object != nullptr && len_object != Py_None && !parse_number(len_object, len)) {
    return nullptr;
  }
  if (!check_range(stream, off, len, size)) return nullptr;
  const auto count = static_cast<std::size_t>(len);
  return append(self, stream, data.subspan(static_cast<std::size_t>(off), count))
             ? PyLong_FromSsize_t(len)
             : nullptr;
}

bool parse_write_keywords(PyObject* const* args, Py_ssize_t nargs, PyObject* names, PyObject*& b,
                          PyObject*& off, PyObject*& len) {
  PyObject** const slots[] = {&b, &off, &len};
  for (Py_ssize_t i = 0; i < nargs && i < 3; ++i) *slots[i] = args[i];
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    const char* const known[] = {"b", "off", "len"};
    std::size_t slot = 0;
    while (slot < 3 && PyUnicode_CompareWithASCIIString(name, known[slot]) != 0) ++slot;
    if (slot == 3 || *slots[slot] != nullptr) {
      PyErr_Format(PyExc_TypeError, "write() got an unexpected or repeated argument '%U'", name);
      return false;
    }
    *slots[slot] = args[nargs + i];
  }
  if (nargs <= 3 && b != nullptr) return true;
  PyErr_Format(PyExc_TypeError, "write() takes b, off and len; %zd arguments were given",
               nargs + named);
  return false;
}

// Runs the body of a raw method: no C++ exception gets out of it.
template <typename Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// write(b, off=0, len=None) -> int
PyObject* write(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  OutputStream* const stream = stream_of(self);
  if (stream == nullptr) return nullptr;
  return guarded([&]() -> PyObject* {
    if (nargs == 1 && names == nullptr && PyBytes_CheckExact(args[0])) {
      return append_bytes(self, *stream, args[0]) ? PyLong_FromSsize_t(PyBytes_GET_SIZE(args[0]))
                                                  : nullptr;
    }
    PyObject* b = nullptr;
    PyObject* off = nullptr;
    PyObject* len = nullptr;
    if (!parse_write_keywords(args, nargs, names, b, off, len)) return nullptr;
    const BufferView buffer(b);
    return write_range(self, *stream, buffer.bytes(), off, len);
  });
}

// _try_write(b) -> int | None: appends all of `b`, which is short, without waiting, or nothing.
PyObject* try_write(PyObject* self, PyObject* b) {
  OutputStream* const stream = stream_of(self);
  if (stream == nullptr) return nullptr;
  return guarded([&]() -> PyObject* {
    const BufferView buffer(b);
    const ByteView data = buffer.bytes();
    if (data.size() >= kKeptAtLeast || !stream->try_write(data)) return py::none().release().ptr();
    release_kept_bytes();
    return PyLong_FromSize_t(data.size());
  });
}

// write_byte(value): the low 8 bits of an int of any size (WRITE-1).
PyObject* write_byte(PyObject* self, PyObject* value) {
  OutputStream* const stream = stream_of(self);
  if (stream == nullptr) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value));
    if (!number) return nullptr;
    const auto byte = static_cast<std::byte>(PyLong_AsUnsignedLongMask(number.ptr()) & 0xFFU);
    return append(self, *stream, ByteView{&byte, 1}) ? py::none().release().ptr() : nullptr;
  });
}

PyMethodDef write_method = {
    "write", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(write)),
    METH_FASTCALL | METH_KEYWORDS,
    "write($self, b, off=0, len=None)\n--\n\n"
    R"(Append ``b[off:off + len]`` and return how many bytes that were: all of them.

Parameters
----------
b : bytes-like
    C-contiguous, counted in bytes. It may be reused on return: it is copied or written before
    that; only `bytes` objects may be kept instead, until the store has them.
off : int
    Where in `b` to begin, in bytes.
len : int, optional
    How many bytes; all from `off` on by default.

Returns
-------
int
    `len`. Concurrent writes interleave whole, never torn (CONC-2).

Raises
------
TypeError
    `b` is str, int, None or otherwise no bytes; nothing is appended.
IndexError
    `off` and `len` are not inside `b`; nothing is appended.
BufferError, ValueError
    `b` is not contiguous.
StreamClosedError
    The stream is not open.
OSError
    A transfer failed, now or in the background; names path, operation and numbers.

Notes
-----
Promises neither visibility nor durability. Source: Hadoop output stream specification, write.)"};
PyMethodDef try_write_method = {"_try_write", try_write, METH_O, nullptr};
PyMethodDef write_byte_method = {
    "write_byte", write_byte, METH_O,
    "write_byte($self, value, /)\n--\n\n"
    R"(Append one byte: the low 8 bits of the int `value`, of any size and sign (WRITE-1).

Raises what write() raises.)"};

// An instance without a native stream would be finalized as if it had one.
PyObject* refuse_new(PyTypeObject* type, PyObject* /*args*/, PyObject* /*keywords*/) noexcept {
  PyErr_Format(PyExc_TypeError, "%.200s() makes no stream: hflush.create() and hflush.open() do",
               type->tp_name);
  return nullptr;
}

void add_raw_method(py::handle type, PyMethodDef& method) {
  auto descriptor = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
  if (!descriptor) throw py::error_already_set();
  type.attr(method.ml_name) = descriptor;
}

// A call that may wait: with signals delivered, and without the GIL for as long as `Unlocked` has
// it.
template <Status (OutputStream::*Call)(stream::Interrupt&), typename Unlocked = ReleasedGil>
void waiting(const py::object& self) {
  const PendingError pending;
  auto& stream = self.cast<OutputStream&>();
  Status done;
  {
    SignalCheck signals(self.ptr());
    const Unlocked unlocked;
    done = (stream.*Call)(signals);
  }
  release_kept_bytes();
  check(done);
  raise_from_signals();
  pending.raise();
}

void hsync(const py::object& self, bool end_block) {
  if (end_block) return waiting<&OutputStream::hsync_and_end_block>(self);
  waiting<&OutputStream::hsync>(self);
}

void close(const py::object& self) {
  if (self.cast<OutputStream&>().closes_at_once()) {
    return waiting<&OutputStream::close, GilUntilSleep>(self);
  }
  waiting<&OutputStream::close>(self);
}

py::tuple abort(OutputStream& stream) {
  stream::AbortResult result;
  Status done;
  {
    const ReleasedGil unlocked;
    done = stream.abort(result);
  }
  release_kept_bytes();
  check(done);
  const py::object cleanup =
      result.cleanup.ok() ? py::object(py::none()) : make_exception(result.cleanup);
  return py::make_tuple(result.already_closed, cleanup);
}

bool abandon(OutputStream& stream) {
  if (stream::is_final(stream.state())) return false;  // each time a stream is released
  bool was_open = false;
  {
    const ReleasedGil unlocked;
    was_open = stream.abandon();
  }
  release_kept_bytes();
  return was_open;
}

void supersede(OutputStream& stream) {
  {
    const ReleasedGil unlocked;
    stream.supersede(Status(StatusCode::kLeaseLost,
                            "write: the file was resumed, or committed, from a token that does not "
                            "have all bytes of this stream",
                            stream.path()));
  }
  release_kept_bytes();
}

// (offset, bytes behind it)
py::tuple hand_over(OutputStream& stream) {
  OutputStream::Rest rest;
  check(bindings::waiting([&](SignalCheck& signals) { return stream.hand_over(rest, signals); }));
  return py::make_tuple(
      rest.offset, py::bytes(reinterpret_cast<const char*>(rest.bytes.data()), rest.bytes.size()));
}

void set_drop_behind(OutputStream& stream, std::optional<bool> value) {
  Status done;
  {
    const ReleasedGil unlocked;
    done = stream.set_drop_behind(value);
  }
  check(done);
}

}  // namespace

void register_stream(py::module_& module) {
  module.def("take_pending", [] { return PendingError().value(); });
  module.def(
      "write_unraisable",
      [](const py::object& error, const py::object& where) {
        PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
        PyErr_WriteUnraisable(where.ptr());
      },
      py::arg("error"), py::arg("where"), py::pos_only());

  const py::custom_type_setup made_by_stores(
      [](PyHeapTypeObject* heap) { heap->ht_type.tp_new = refuse_new; });
  StreamClass type(module, "OutputStream", made_by_stores);
  type.def("flush", &waiting<&OutputStream::flush>,
           R"(Hand bytes to the next layer: cheap, and no promise of anything.

It is never a sync, and a no-op on a closed stream.
Source: Hadoop's output stream specification; contract FLUSH-1 to FLUSH-8.)")
      .def("hflush", &waiting<&OutputStream::hflush>)
      .def("hsync", &hsync, py::arg("end_block") = false)
      .def("close", &close)
      .def("_abort", &abort)
      .def("_abandon", &abandon)
      .def("_give_up", &OutputStream::give_up)
      .def("_supersede", &supersede)
      .def("tell", &OutputStream::position)
      .def("get_pos", &OutputStream::position)
      .def(
          "has_capability",
          [](const OutputStream& stream, const py::str& name) {
            return stream.has_capability(std::string(name));
          },
          py::arg("name"), py::pos_only())
      .def("set_drop_behind", &set_drop_behind, py::arg("value"), py::pos_only())
      .def("_hand_over", &hand_over)
      .def_property_readonly("_file_id", &OutputStream::file_id)
      .def("_history", [](const OutputStream& stream) { return to_list(stream.history()); })
      .def("_statistics", [](const OutputStream& stream) { return to_dict(stream.statistics()); })
      .def_property_readonly("closed",
                             [](const OutputStream& stream) {
                               const stream::State state = stream.state();
                               return stream::is_final(state) || state == stream::State::kClosing;
                             })
      .def_property_readonly(
          "_state", [](const OutputStream& stream) { return stream::to_string(stream.state()); })
      .def_property_readonly("_path",
                             [](const OutputStream& stream) { return text_of(stream.path()); });
  add_raw_method(type, write_method);
  add_raw_method(type, try_write_method);
  add_raw_method(type, write_byte_method);

  py::class_<Statistics>(module, "StatisticsSum", py::is_final())
      .def(py::init())
      .def(
          "add",
          [](Statistics& sum, const OutputStream& stream, const Counts& own) {
            stream.add_statistics(sum);
            for (const auto& [name, count] : own) sum[name] += count;
          },
          py::arg("stream"), py::arg("own"), py::pos_only())
      .def("total", [](const Statistics& sum) { return to_dict(sum); });
}

}  // namespace hflush::bindings
