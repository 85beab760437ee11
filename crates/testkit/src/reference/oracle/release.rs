//! The releases of CUDA that are compared with.

use std::borrow::Cow;
use std::str::FromStr;

/// A release of the tools, as pinned wheels.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// `13.0`.
    pub name: &'static str,
    /// Wheels that make up the tools; part of every cache key.
    pub wheels: &'static [&'static str],
    /// The toolkit among the packages.
    pub package: &'static str,
    /// Programs that are needed of it.
    pub tools: &'static [&'static str],
}

const NVCC_TOOLS: &[&str] = &["ptxas", "nvlink", "nvcc"];

const fn release(name: &'static str, wheels: &'static [&'static str]) -> Release {
    Release { name, wheels, package: "nvidia/cu13", tools: NVCC_TOOLS }
}

/// All releases, oldest first. Of 12.9 there is the compiler only, for objects.
pub static RELEASES: [Release; 7] = [
    Release {
        name: "12.9",
        wheels: &["nvidia-cuda-nvcc-cu12==12.9.86"],
        package: "nvidia/cuda_nvcc",
        tools: &["ptxas"],
    },
    release(
        "13.0",
        &[
            "nvidia-cuda-nvcc==13.0.88",
            "nvidia-nvvm==13.0.88",
            "nvidia-cuda-crt==13.0.88",
            "nvidia-cuda-runtime==13.0.96",
            "nvidia-nvjitlink==13.0.88",
            "nvidia-cuda-cccl==13.0.85",
            "nvidia-nvfatbin==13.0.85",
            // The first release on PyPI is later than the other tools; it only shows what is in a
            // file.
            "nvidia-cuda-cuobjdump==13.4.92",
        ],
    ),
    release(
        "13.1",
        &[
            "nvidia-cuda-nvcc==13.1.115",
            "nvidia-nvvm==13.1.115",
            "nvidia-cuda-crt==13.1.115",
            "nvidia-cuda-runtime==13.1.80",
            "nvidia-nvjitlink==13.1.115",
            "nvidia-cuda-cccl==13.1.115",
        ],
    ),
    release(
        "13.2",
        &[
            "nvidia-cuda-nvcc==13.2.86",
            "nvidia-nvvm==13.2.86",
            "nvidia-cuda-crt==13.2.86",
            "nvidia-cuda-runtime==13.2.86",
            "nvidia-nvjitlink==13.2.86",
            "nvidia-cuda-cccl==13.2.86",
        ],
    ),
    release(
        "13.3",
        &[
            "nvidia-cuda-nvcc==13.3.73",
            "nvidia-nvvm==13.3.73",
            "nvidia-cuda-crt==13.3.73",
            "nvidia-cuda-runtime==13.3.29",
            // There is none of 13.3.73 on PyPI.
            "nvidia-nvjitlink==13.3.33",
            "nvidia-cuda-cccl==13.3.3.4.1",
        ],
    ),
    release(
        "13.4",
        &[
            "nvidia-cuda-nvcc==13.4.92",
            "nvidia-nvvm==13.4.92",
            "nvidia-cuda-crt==13.4.92",
            "nvidia-cuda-runtime==13.4.92",
            "nvidia-nvjitlink==13.4.92",
            "nvidia-cuda-cccl==13.3.4.3.1",
        ],
    ),
    release(
        "13.5",
        &[
            "nvidia-cuda-nvcc==13.5.37",
            "nvidia-nvvm==13.5.37",
            "nvidia-cuda-crt==13.5.37",
            "nvidia-cuda-runtime==13.5.37",
            "nvidia-nvjitlink==13.5.37",
            "nvidia-cuda-cccl==13.3.5.0.6",
        ],
    ),
];

impl Release {
    /// 13.0, which everything is compared with unless another is asked for.
    pub fn usual() -> &'static Release {
        &RELEASES[1]
    }

    /// True for a release of which the compiler of CUDA C++ is there.
    pub fn has_nvcc(&self) -> bool {
        self.tools.contains(&"nvcc")
    }

    /// True for a release of which the linker is there.
    pub fn has_nvlink(&self) -> bool {
        self.tools.contains(&"nvlink")
    }

    /// `text`, PTX, in the newest version of the language that the release knows.
    pub fn ptx<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.has_nvlink() {
            true => text.into(),
            false => text.replace(".version 9.0", ".version 8.8").into(),
        }
    }
}

impl FromStr for &'static Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let found = RELEASES.iter().find(|release| release.name == text);
        found.ok_or_else(|| {
            let names = RELEASES.iter().map(|release| release.name).collect::<Vec<_>>();
            anyhow::anyhow!("releases: {}", names.join(" "))
        })
    }
}
