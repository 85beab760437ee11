//! The public items of the published crates are those of `docs/api`.
//!
//! In: the sources. Out: no report, or the crates whose listing is stale. `UPDATE_API=1` writes the
//! listings; the difference shows a reviewer what changes for users of the crates.

use anyhow::{Result, ensure};
use culd_tests::{public_api, root};
use std::{env, fs};

#[test]
fn listings_are_up_to_date() -> Result<()> {
    let mut stale = Vec::new();
    for (name, folder) in public_api::CRATES {
        let listing = public_api::listing(&root().join(folder))?;
        let path = root().join(format!("docs/api/{name}.txt"));
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        if listing == recorded {
            continue;
        }
        match env::var_os("UPDATE_API") {
            Some(_) => fs::write(&path, listing)?,
            None => stale.push(name),
        }
    }
    ensure!(stale.is_empty(), "stale: {stale:?}; UPDATE_API=1 cargo test --test public_api");
    Ok(())
}
