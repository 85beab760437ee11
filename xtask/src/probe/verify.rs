//! `xtask probe --verify`: the tables of `crates/reloc` against nvlink.
//!
//! In: nothing. Out: a table of observations, and every bit that is not where the table says.
//! Guaranteed: exit code 1 if there is one.

use super::linkers::ProbeLinkers;
use anyhow::Result;
use culd_testkit::probe::{series, verify};
use std::collections::BTreeMap;
use std::process::ExitCode;

pub(super) fn run(linkers: &ProbeLinkers) -> Result<ExitCode> {
    let [nvlink, _] = linkers.start()?;
    let mut lines =
        String::from("| arch | nvlink | rows | identical | failed |\n|---|---|--:|--:|--:|\n");
    let mut all = (0, 0, 0);
    for sm in series::RECORDED {
        let mut groups: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
        for seen in verify::rows(sm, &nvlink)? {
            for wrong in &seen.wrong {
                println!("sm_{sm} {}: {wrong}", seen.row.name);
            }
            let group = format!("{:?}", seen.row.observed);
            for sum in [groups.entry(group).or_default(), &mut all] {
                sum.0 += 1;
                sum.1 += seen.right;
                sum.2 += seen.wrong.len() + usize::from(seen.right == 0);
            }
        }
        for (group, (rows, right, wrong)) in groups {
            lines += &format!("| sm_{sm} | {group} | {rows} | {right} | {wrong} |\n");
        }
    }
    lines += &format!("| all | | {} | {} | {} |\n", all.0, all.1, all.2);
    print!("{lines}");
    Ok(if all.2 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
