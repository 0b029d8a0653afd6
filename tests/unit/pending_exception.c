// A library that goes on after a callback failed, as HDF5 does.

typedef void object;
extern object* PyExc_KeyError;
void PyErr_SetString(object*, const char*);
object* PyObject_GetAttrString(object*, const char*);
object* PyObject_CallObject(object*, object*);

object* call_with_an_exception_pending(object* stream, const char* method) {
  object* bound = PyObject_GetAttrString(stream, method);
  PyErr_SetString(PyExc_KeyError, "of an earlier call");
  return PyObject_CallObject(bound, 0);
}
