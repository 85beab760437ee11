//! The releases of CUDA that culd is compared with.

use std::borrow::Cow;
use std::str::FromStr;

/// A release of the tools, as pinned wheels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// `13.0`.
    pub name: &'static str,
    /// Wheels that make up the tools; part of every cache key.
    pub wheels: &'static [&'static str],
    /// The toolkit among the packages.
    pub package: &'static str,
    /// The programs that are needed.
    pub tools: &'static [&'static str],
    /// The version of PTX that it knows, if sources have to name one.
    ptx: Option<&'static str>,
}

const NVCC_TOOLS: &[&str] = &["ptxas", "nvlink", "nvcc"];

const fn release(name: &'static str, wheels: &'static [&'static str]) -> Release {
    Release { name, wheels, package: "nvidia/cu13", tools: NVCC_TOOLS, ptx: None }
}

/// A release whose wheels have ptxas, and the linker only as a library.
const fn old(
    name: &'static str,
    wheels: &'static [&'static str],
    ptx: Option<&'static str>,
) -> Release {
    Release { name, wheels, package: "nvidia/cuda_nvcc", tools: &["ptxas"], ptx }
}

/// All releases, oldest first. There was no 12.7.
pub static RELEASES: [Release; 16] = [
    old("11.8", &["nvidia-cuda-nvcc-cu11==11.8.89"], Some("7.8")),
    old(
        "12.0",
        &["nvidia-cuda-nvcc-cu12==12.0.140", "nvidia-nvjitlink-cu12==12.0.140"],
        Some("8.0"),
    ),
    old(
        "12.1",
        &["nvidia-cuda-nvcc-cu12==12.1.105", "nvidia-nvjitlink-cu12==12.1.105"],
        Some("8.1"),
    ),
    old(
        "12.2",
        &["nvidia-cuda-nvcc-cu12==12.2.140", "nvidia-nvjitlink-cu12==12.2.140"],
        Some("8.2"),
    ),
    old(
        "12.3",
        &["nvidia-cuda-nvcc-cu12==12.3.107", "nvidia-nvjitlink-cu12==12.3.101"],
        Some("8.3"),
    ),
    old(
        "12.4",
        &["nvidia-cuda-nvcc-cu12==12.4.131", "nvidia-nvjitlink-cu12==12.4.127"],
        Some("8.4"),
    ),
    old("12.5", &["nvidia-cuda-nvcc-cu12==12.5.82", "nvidia-nvjitlink-cu12==12.5.82"], Some("8.5")),
    old("12.6", &["nvidia-cuda-nvcc-cu12==12.6.85", "nvidia-nvjitlink-cu12==12.6.85"], Some("8.5")),
    old("12.8", &["nvidia-cuda-nvcc-cu12==12.8.93", "nvidia-nvjitlink-cu12==12.8.93"], Some("8.7")),
    old("12.9", &["nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-nvjitlink-cu12==12.9.86"], Some("8.8")),
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
            // The first cuobjdump on PyPI is later than the other tools; it only prints the
            // contents of a file.
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
            // PyPI has no 13.3.73.
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
    /// 13.0, the default of all comparisons.
    pub fn usual() -> &'static Release {
        &RELEASES[10]
    }

    /// True for a release of CUDA 13.
    pub fn is_of_13(&self) -> bool {
        self.name.starts_with("13.")
    }

    /// Options that its nvcc needs here: that of 11.8 refuses later host compilers.
    pub fn nvcc_options(&self) -> &'static [&'static str] {
        if self.name == "11.8" { &["-allow-unsupported-compiler"] } else { &[] }
    }

    /// True for a release whose wheels have nvcc.
    pub fn has_nvcc(&self) -> bool {
        self.tools.contains(&"nvcc")
    }

    /// True for a release whose wheels have the linker as a program.
    pub fn has_nvlink(&self) -> bool {
        self.tools.contains(&"nvlink")
    }

    /// True for a release whose wheels have the linker as a library.
    pub fn has_jitlink(&self) -> bool {
        self.has_nvlink() || self.wheels.iter().any(|wheel| wheel.starts_with("nvidia-nvjitlink"))
    }

    /// The PTX `text` for the target `arch`, in the newest version of PTX that the release knows.
    /// Sources are in that of 13.0 and for sm_75.
    pub fn ptx<'t>(&self, text: &'t str, arch: &str) -> Cow<'t, str> {
        let Some(version) = self.ptx else { return text.into() };
        let text = with_version(text, version);
        let digits = arch.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
        match digits.parse::<u32>() {
            Ok(sm) if sm < 75 => text.replace(".target sm_75", &format!(".target sm_{sm}")).into(),
            _ => text.into(),
        }
    }
}

/// PTX `text` of at most `version`, such as 8.3.
fn with_version(text: &str, version: &str) -> String {
    const WORD: &str = ".version ";
    let number = |text: &str| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let lines = text.split_inclusive('\n').map(|line| {
        let own = line.strip_prefix(WORD).map(str::trim_end);
        match own.and_then(number) {
            Some(own) if Some(own) > number(version) => format!("{WORD}{version}\n"),
            _ => line.to_owned(),
        }
    });
    lines.collect()
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
