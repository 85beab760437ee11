//! Writes the host object of a device link: `host_object <fat binary> <out.o> <module id>...`, for
//! this machine.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use culd_fatbin::registration::{Machine, Visibility, host_object};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [fatbin, out, ids @ ..] = &words[..] else {
        return Err("usage: host_object <fat binary> <out.o> <module id>...".into());
    };
    let machine =
        Machine::by_name(std::env::consts::ARCH).ok_or("a machine without host objects")?;
    let fatbin = std::fs::read(fatbin)?;
    let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
    let head = host_object(machine, Visibility::Default, fatbin.len() as u64, &ids)?;
    let mut file = File::create(out)?;
    file.write_all(&head)?;
    file.write_all(&fatbin)?;
    Ok(())
}
