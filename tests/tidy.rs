//! The rules of [`culd_tests::tidy`] hold.

use culd_tests::{root, tidy};

#[test]
fn the_source_tree_keeps_its_rules() {
    let files = tidy::files(&root()).expect("a readable source tree");
    assert!(files.len() > 300, "only {} files found", files.len());
    let mut broken = Vec::new();
    for (rule, check) in tidy::RULES {
        broken.extend(check(&files).into_iter().map(|place| format!("{rule}: {place}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
