//! Prints `docs/RELOCATIONS.md`.

fn main() {
    print!("{}", culd_reloc::markdown_table());
}
