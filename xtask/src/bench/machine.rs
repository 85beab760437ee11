//! Describes the machine of a table of times.

use std::fs;
use std::path::Path;

/// Processor, cores, memory, kernel, file system of `dir`, load: one sentence.
pub(crate) fn description(dir: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let processor = value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_else(unknown);
    let memory = memory.trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib >> 20);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!(
        "{processor}, {cores} cores, {memory} GiB, Linux {}, files on {}, load {load} at the start.",
        kernel.trim(),
        file_system(&read("/proc/self/mounts"), dir)
    )
}

/// The type of the file system of `dir`.
fn file_system(mounts: &str, dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let on = mounts.filter(|(at, _)| dir.starts_with(at));
    on.max_by_key(|(at, _)| at.len()).map_or("an unknown file system", |found| found.1).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "a / ext4 rw 0 0\nb /proc proc rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/proc")), "proc");
        assert_eq!(file_system(mounts, Path::new("/usr")), "ext4");
    }
}
