//! Links the same files from memory again and again, and prints how long a link takes.
//!
//! ```text
//! cargo run --release -p culd --example repeat -- 1000 sm_90 \
//!     testdata/quickstart/saxpy.cubin testdata/quickstart/smooth.cubin
//! ```
//!
//! Prints the median in microseconds. `cargo xtask python --time` holds links through Python
//! against it.

use std::error::Error;
use std::time::Instant;

use culd::{InputKind, Linker, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let count: usize = words.next().ok_or("usage: repeat COUNT ARCH FILE...")?.parse()?;
    let arch = words.next().ok_or("no architecture")?;
    let mut inputs = Vec::new();
    for file in words {
        inputs.push((std::fs::read(&file)?, file));
    }
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let mut linker = Linker::new(Options::parse([format!("-arch={arch}")])?);
        for (bytes, name) in &inputs {
            linker.add_bytes(name.as_str(), InputKind::Any, bytes.as_slice());
        }
        let linked = linker.link()?;
        times.push(start.elapsed());
        assert!(!linked.image().is_empty());
    }
    times.sort();
    println!("{}", times.get(count / 2).ok_or("no links")?.as_micros());
    Ok(())
}
