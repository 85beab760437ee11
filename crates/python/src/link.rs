//! A link, from Python.
//!
//! In: inputs, words of a command line, and the places of tools. Out: [`Linked`], or an exception.
//! Guaranteed: the interpreter is free during the link, and while the report is written.

use std::ffi::OsString;
use std::path::PathBuf;

use culd::{ARCHS, Linker, Options};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::inputs;
use crate::messages::{Diagnostic, link_error, list, options_error};

/// Where programs and toolkits lie that a link may need.
pub(crate) type Places = (Vec<PathBuf>, Option<PathBuf>);

/// A linked program.
#[pyclass(frozen, module = "culd")]
pub(crate) struct Linked {
    linked: culd::Linked,
    cubin: PyOnceLock<Py<PyBytes>>,
}

#[pymethods]
impl Linked {
    /// The linked cubin, as the CUDA driver loads it.
    #[getter]
    fn cubin(&self, py: Python<'_>) -> Py<PyBytes> {
        let make = || PyBytes::new(py, self.linked.image()).unbind();
        self.cubin.get_or_init(py, make).clone_ref(py)
    }

    /// Warnings and infos, in order.
    #[getter]
    fn diagnostics(&self) -> Vec<Diagnostic> {
        list(self.linked.diagnostics())
    }

    /// The report as JSON.
    #[getter]
    fn report_json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.linked.report().to_json()))
    }

    fn __repr__(&self) -> String {
        format!("<culd.Linked, {} bytes>", self.linked.image().len())
    }
}

/// Links `inputs` with the options in `words`.
#[pyfunction]
pub(crate) fn link(
    py: Python<'_>,
    inputs: &Bound<'_, PyAny>,
    words: Vec<OsString>,
    libraries: Vec<OsString>,
    places: Places,
) -> PyResult<Linked> {
    let inputs = inputs::all(inputs)?;
    let options = options(words, places)?;
    let linked = py.detach(|| {
        let mut linker = Linker::new(options);
        inputs::add(&mut linker, &inputs);
        for library in libraries {
            linker.add_library(library);
        }
        linker.link()
    });
    match linked {
        Ok(linked) => Ok(Linked { linked, cubin: PyOnceLock::new() }),
        Err(error) => Err(link_error(py, &error)),
    }
}

/// The names of all architectures that a link can be for.
#[pyfunction]
pub(crate) fn architectures() -> Vec<&'static str> {
    ARCHS.iter().map(|arch| arch.name).collect()
}

/// The options of a link.
pub(crate) fn options(words: Vec<OsString>, (toolkits, lto): Places) -> PyResult<Options> {
    let mut options = Options::parse(words).map_err(options_error)?.toolkits(toolkits);
    if let Some(program) = lto {
        options = options.lto_program(program);
    }
    Ok(options)
}
