//! The rules of [`culd_testkit::tidy`] hold.

use culd_testkit::tidy;
use culd_tests::root;

#[test]
fn the_source_tree_keeps_its_rules() {
    let files = tidy::files(&root()).expect("a readable source tree");
    assert!(files.len() > 300, "only {} files found", files.len());
    let broken = tidy::violations(&files);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
