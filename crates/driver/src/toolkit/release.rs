//! Which release a toolkit is of.
//!
//! In: the folder of a toolkit. Out: its release as text, `13.5`.

use std::fs;
use std::path::Path;

use culd_cubin::text_of;

/// The release of a toolkit, `13.5`: from `version.json`, or from its headers, which wheels have.
pub(crate) fn of_toolkit(toolkit: &Path) -> Option<String> {
    let described = fs::read_to_string(toolkit.join("version.json")).ok();
    let described = described.as_deref().and_then(|text| {
        let cuda = text.split_once("\"cuda\"")?.1;
        let version = cuda.split_once("\"version\"")?.1.split('"').nth(1)?;
        let mut numbers = version.split('.');
        Some(format!("{}.{}", numbers.next()?, numbers.next()?))
    });
    described.or_else(|| {
        let headers = [("cuda_runtime_api.h", "CUDART_VERSION"), ("cuda.h", "CUDA_VERSION")];
        headers.iter().find_map(|(file, name)| {
            let text = fs::read(toolkit.join("include").join(file)).ok()?;
            let text = text_of(&text);
            // `#define CUDART_VERSION 13050` is 13.5.
            let defined = text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                let found = words.next() == Some("#define") && words.next() == Some(name);
                words.next().filter(|_| found)
            });
            let number: u32 = defined?.parse().ok()?;
            Some(format!("{}.{}", number / 1000, number % 1000 / 10))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_name_their_release() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of_toolkit(folder.path()), None);
        fs::create_dir(folder.path().join("include")).unwrap();
        let header = "#define CUDART_VERSION_X 1\n#define CUDART_VERSION  13040\n";
        fs::write(folder.path().join("include/cuda_runtime_api.h"), header).unwrap();
        assert_eq!(of_toolkit(folder.path()).as_deref(), Some("13.4"));
        let header = "#define CUDART_VERSION  11080\n";
        fs::write(folder.path().join("include/cuda_runtime_api.h"), header).unwrap();
        assert_eq!(of_toolkit(folder.path()).as_deref(), Some("11.8"));
        let json = "{\"cuda\" : {\n \"name\" : \"CUDA SDK\",\n \"version\" : \"13.1.20251031\"\n}}";
        fs::write(folder.path().join("version.json"), json).unwrap();
        assert_eq!(of_toolkit(folder.path()).as_deref(), Some("13.1"));
    }
}
