//! A device link for several architectures, from Python.
//!
//! In: inputs, and the words of a command line for each architecture. Out: [`DeviceLinked`], or an
//! exception. Guaranteed: the interpreter is free during the link.

use std::ffi::OsString;

use culd::DeviceLink;
use culd::fatbin::registration::Machine;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::inputs;
use crate::link::{Places, options};
use crate::messages::{CuldError, Diagnostic, link_error, list};

/// A program that is linked for its architectures.
#[pyclass(frozen, module = "culd")]
pub(crate) struct DeviceLinked {
    linked: culd::DeviceLinked,
}

#[pymethods]
impl DeviceLinked {
    /// The fat binary of all images.
    fn fatbin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| self.linked.fatbin());
        made.map(|bytes| PyBytes::new(py, &bytes)).map_err(too_large)
    }

    /// The object for the host linker, for this machine or the one with this name.
    #[pyo3(signature = (machine = None))]
    fn host_object<'py>(
        &self,
        py: Python<'py>,
        machine: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let name = machine.unwrap_or(std::env::consts::ARCH);
        let unknown = || PyValueError::new_err(format!("no machine is called '{name}'"));
        let machine = Machine::by_name(name).ok_or_else(unknown)?;
        let made = py.detach(|| self.linked.host_object(machine));
        made.map(|bytes| PyBytes::new(py, &bytes)).map_err(too_large)
    }

    /// Warnings and infos, those of each architecture after those of the one before.
    #[getter]
    fn diagnostics(&self) -> Vec<Diagnostic> {
        list(&self.linked.diagnostics)
    }

    fn __repr__(&self) -> String {
        format!("<culd.DeviceLinked, {} images>", self.linked.images.len())
    }
}

/// A part does not fit its field.
fn too_large(error: culd::fatbin::Error) -> PyErr {
    CuldError::new_err(error.to_string())
}

/// Links `inputs` for each of `links`, the words of a command line.
#[pyfunction]
pub(crate) fn device_link(
    py: Python<'_>,
    inputs: &Bound<'_, PyAny>,
    links: Vec<Vec<OsString>>,
    places: Places,
) -> PyResult<DeviceLinked> {
    let inputs = inputs::all(inputs)?;
    let all = links.into_iter().map(|words| options(words, places.clone()));
    let all = all.collect::<PyResult<Vec<_>>>()?;
    let linked = py.detach(|| {
        let mut link = DeviceLink::new(all);
        inputs::add_to_device_link(&mut link, &inputs);
        link.link()
    });
    linked.map(|linked| DeviceLinked { linked }).map_err(|error| link_error(py, &error))
}
