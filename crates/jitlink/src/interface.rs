//! Which libnvJitLink this is: that of CUDA 13, or with the feature `cuda12` that of CUDA 12.
//!
//! In: the feature. Out: an [`Interface`]. Guaranteed: nothing else in this crate looks at the
//! feature, except the lists of exported names.

use std::ffi::c_int;

use culd_cubin::arch::Arch;
use culd_link::Dialect;

use crate::result::ResultCode;

/// The differences between the libraries of two major releases.
pub(crate) struct Interface {
    /// The result of `nvJitLinkVersion`: the release whose codes and logs are followed.
    pub(crate) version: (u16, u16),
    /// The last release whose rules are followed, ten times its number. Newer objects are linked,
    /// and so refused, by those of `version`.
    last: u16,
    /// Folders in Python packages with ptxas or NVIDIA's own libnvJitLink.
    pub(crate) wheels: &'static [&'static str],
    /// NVIDIA's library makes objects of LTO-IR (`-r`), of which culd learns the names that other
    /// code needs. Without them NVIDIA's library has to link LTO-IR with other code itself.
    pub(crate) has_objects_of_lto: bool,
    /// Options of the other library only.
    pub(crate) lacks: &'static [&'static str],
    /// The numbers of architectures of the past.
    pub(crate) unsupported: &'static [u32],
}

const CUDA_12: Interface = Interface {
    version: (12, 9),
    last: 129,
    wheels: &["nvidia/cuda_nvcc", "nvidia/nvjitlink"],
    has_objects_of_lto: false,
    lacks: &["-r", "-nvvm-latest"],
    unsupported: &[10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 69],
};

const CUDA_13: Interface = Interface {
    version: (13, 0),
    last: u16::MAX,
    wheels: &["nvidia/cu13"],
    has_objects_of_lto: true,
    lacks: &[],
    unsupported: &[10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 69, 70],
};

/// The library that this one takes the place of.
pub(crate) const INTERFACE: Interface = if cfg!(feature = "cuda12") { CUDA_12 } else { CUDA_13 };

impl Interface {
    /// The release of [`Interface::version`].
    fn usual(&self) -> &'static Dialect {
        let (major, minor) = self.version;
        Dialect::for_toolkit(10 * major + minor)
    }

    /// The number of a result in the header of the major release.
    pub(crate) fn number(&self, code: ResultCode) -> c_int {
        if self.version.0 != 12 {
            return code as c_int;
        }
        let older = match code {
            // NVIDIA's header of 12.9 names these, and its library does not return them.
            ResultCode::NullInput
            | ResultCode::IncompatibleOptions
            | ResultCode::IncorrectInputType => ResultCode::InvalidInput,
            ResultCode::LtoNotEnabled => ResultCode::Internal,
            // It does not name these: the library takes any number for an architecture.
            ResultCode::UnrecognizedArch | ResultCode::UnsupportedArch => {
                ResultCode::UnrecognizedOption
            }
            code => code,
        };
        older as c_int
    }

    /// True for an architecture that some release of this interface knows.
    pub(crate) fn knows(&self, arch: &Arch) -> bool {
        arch.releases.1 >= self.usual().toolkit && arch.releases.0 <= self.last
    }

    /// The release whose rules a link of `cubins` to `arch` follows.
    pub(crate) fn dialect<'c>(
        &self,
        arch: &Arch,
        cubins: impl IntoIterator<Item = &'c [u8]>,
    ) -> &'static Dialect {
        let mut cubins = cubins.into_iter().peekable();
        if cubins.peek().is_none() && self.usual().knows(arch) {
            return self.usual();
        }
        let chosen = Dialect::for_cubins(arch, cubins);
        if chosen.toolkit > self.last { self.usual() } else { chosen }
    }
}
