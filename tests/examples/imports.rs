//! Prints the figures of [`culd_tests::imports`], for `cargo xtask tidy --table`.

fn main() -> anyhow::Result<()> {
    let files = culd_tests::tidy::files(&culd_tests::root())?;
    print!("{}", culd_tests::imports::table(&files));
    Ok(())
}
