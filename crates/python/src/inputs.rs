//! Inputs of a link, from Python.
//!
//! In: bytes, paths, and pairs of a name and bytes. Out: inputs that can be linked without the
//! interpreter. Guaranteed: `bytes` are borrowed, because nobody can change them; other objects
//! with a buffer (`bytearray`, `mmap`, arrays) are copied, because another thread can.

use std::path::PathBuf;

use culd::{DeviceLink, InputKind, Linker};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyTuple};

/// An input.
pub(crate) enum Input {
    /// A file, read when the link begins.
    File(PathBuf),
    /// Bytes with a name for messages.
    Bytes(String, PyBackedBytes),
}

impl Input {
    /// The input `given`; bytes without a name are called by `place`, their place in the list.
    fn of(given: &Bound<'_, PyAny>, place: usize) -> PyResult<Self> {
        if let Some(bytes) = bytes(given)? {
            return Ok(Input::Bytes(format!("input {place}"), bytes));
        }
        if let Ok(pair) = given.cast::<PyTuple>() {
            // A name is often the path that the bytes were read from.
            let (name, content) = pair.extract::<(PathBuf, Bound<'_, PyAny>)>()?;
            let content = bytes(&content)?;
            let wrong = || PyTypeError::new_err("the second item of a pair must be bytes");
            return Ok(Input::Bytes(culd_text::name(name), content.ok_or_else(wrong)?));
        }
        given.extract().map(Input::File).map_err(|_| {
            let what = given.get_type().name().map_or_else(|_| "?".to_owned(), |it| it.to_string());
            PyTypeError::new_err(format!("an input is bytes, a path or (name, bytes), not {what}"))
        })
    }
}

/// All inputs of an iterable.
pub(crate) fn all(given: &Bound<'_, PyAny>) -> PyResult<Vec<Input>> {
    // A path is iterable, too, and so are bytes: as a list they make no sense.
    if given.is_instance_of::<PyString>() || bytes(given)?.is_some() {
        return Err(PyTypeError::new_err("inputs are a list, not a single input"));
    }
    let inputs = given.try_iter()?.enumerate();
    inputs.map(|(place, input)| Input::of(&input?, place)).collect()
}

/// The contents of an object with bytes.
fn bytes(given: &Bound<'_, PyAny>) -> PyResult<Option<PyBackedBytes>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Some(PyBackedBytes::from(bytes.clone())));
    }
    // numpy's text is both text and a buffer: then it is a path.
    if given.is_instance_of::<PyString>() {
        return Ok(None);
    }
    let Ok(view) = PyMemoryView::from(given) else {
        return Ok(None);
    };
    let copy = given.py().get_type::<PyBytes>().call1((view,))?;
    Ok(Some(PyBackedBytes::from(copy.cast_into::<PyBytes>()?)))
}

/// Adds inputs to a link.
pub(crate) fn add<'i>(linker: &mut Linker<'i>, inputs: &'i [Input]) {
    for input in inputs {
        match input {
            Input::File(path) => linker.add_file(path),
            Input::Bytes(name, bytes) => linker.add_bytes(name, InputKind::Any, &bytes[..]),
        };
    }
}

/// Adds inputs to a device link.
pub(crate) fn add_to_device_link<'i>(link: &mut DeviceLink<'i>, inputs: &'i [Input]) {
    for input in inputs {
        match input {
            Input::File(path) => link.add_file(path),
            Input::Bytes(name, bytes) => link.add_bytes(name, InputKind::Any, &bytes[..]),
        };
    }
}
