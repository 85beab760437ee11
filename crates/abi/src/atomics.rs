//! Atomic operations of C++ in PTX: the guide, chapter 4.
//!
//! In: an operation, its memory order and scope. Out: the sequences of instructions that implement
//! it, any of which may be taken. Guaranteed: all producers that take them agree, whichever they
//! choose.

/// The memory order of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of C++")]
pub enum Order {
    SeqCst,
    Release,
    Acquire,
    AcqRel,
    Relaxed,
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `atomic_thread_fence`
    Fence,
    /// `atomic_load`
    Load,
    /// `atomic_store`
    Store,
    /// `atomic_<rmw op>`
    ReadModifyWrite,
}

/// Which threads an operation is atomic for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];

    /// The name in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Cta => "cta",
            Scope::Cluster => "cluster",
            Scope::Gpu => "gpu",
            Scope::Sys => "sys",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The operation.
    pub operation: Operation,
    /// Its order.
    pub order: Order,
    /// Instructions, each with its semicolon; `<scope>` and `<rmw op>` are placeholders.
    pub instructions: &'static [&'static str],
}

const fn row(operation: Operation, order: Order, instructions: &'static [&'static str]) -> Mapping {
    Mapping { operation, order, instructions }
}

/// The table of the guide, row by row. Where an operation has several rows, each is one of its
/// mappings.
#[rustfmt::skip]
pub const MAPPINGS: [Mapping; 20] = {
    use Operation::{Fence, Load, ReadModifyWrite, Store};
    use Order::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    [
        row(Fence, SeqCst, &["fence.sc.<scope>;"]),
        row(Load, SeqCst, &["fence.sc.<scope>;", "ld.relaxed.<scope>;"]),
        row(Store, SeqCst, &["fence.sc.<scope>;", "st.relaxed.<scope>;"]),
        row(ReadModifyWrite, SeqCst, &["fence.sc.<scope>;", "atom.acquire.<scope>.<rmw op>;"]),
        row(Fence, Release, &["fence.release.<scope>;"]),
        row(Store, Release, &["fence.release.<scope>;", "st.relaxed.<scope>;"]),
        row(Store, Release, &["st.release.<scope>;"]),
        row(ReadModifyWrite, Release, &["fence.release.<scope>;", "atom.relaxed.<scope>.<rmw op>;"]),
        row(ReadModifyWrite, Release, &["atom.release.<scope>.<rmw op>;"]),
        row(Fence, Acquire, &["fence.acquire.<scope>;"]),
        row(Load, Acquire, &["ld.relaxed.<scope>;", "fence.acquire.<scope>;"]),
        row(Load, Acquire, &["ld.acquire.<scope>;"]),
        row(ReadModifyWrite, Acquire, &["atom.relaxed.<scope>.<rmw op>;", "fence.acquire.<scope>;"]),
        row(ReadModifyWrite, Acquire, &["atom.acquire.<scope>.<rmw op>;"]),
        row(Fence, AcqRel, &["fence.acq_rel.<scope>;"]),
        // One row of the guide, with OR between.
        row(ReadModifyWrite, AcqRel, &["atom.acq_rel.<scope>.<rmw op>;"]),
        row(ReadModifyWrite, AcqRel, &["fence.release.<scope>;", "atom.acquire.<scope>.<rmw op>;"]),
        row(Load, Relaxed, &["ld.relaxed.<scope>;"]),
        row(Store, Relaxed, &["st.relaxed.<scope>;"]),
        row(ReadModifyWrite, Relaxed, &["atom.relaxed.<scope>.<rmw op>;"]),
    ]
};

impl Mapping {
    /// The instructions for `scope` and, where it reads and writes, the operation `op` (`add`).
    pub fn instructions(&self, scope: Scope, op: &str) -> Vec<String> {
        let fill = |text: &&str| text.replace("<scope>", scope.name()).replace("<rmw op>", op);
        self.instructions.iter().map(fill).collect()
    }
}

/// All mappings of an operation with this order; none where C++ does not have it.
///
/// ```
/// use culd_abi::atomics::{Operation, Order, Scope, mappings};
/// let load: Vec<_> = mappings(Operation::Load, Order::SeqCst).collect();
/// assert_eq!(load[0].instructions(Scope::Gpu, ""), ["fence.sc.gpu;", "ld.relaxed.gpu;"]);
/// assert_eq!(mappings(Operation::Load, Order::Release).count(), 0);
/// ```
pub fn mappings(operation: Operation, order: Order) -> impl Iterator<Item = &'static Mapping> {
    MAPPINGS.iter().filter(move |row| row.operation == operation && row.order == order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of the guide as they are printed: operation, order, mapping.
    const GUIDE: &str = "\
fence seq_cst: fence.sc.<scope>;
load seq_cst: fence.sc.<scope>; ld.relaxed.<scope>;
store seq_cst: fence.sc.<scope>; st.relaxed.<scope>;
rmw seq_cst: fence.sc.<scope>; atom.acquire.<scope>.<rmw op>;
fence release: fence.release.<scope>;
store release: fence.release.<scope>; st.relaxed.<scope>;
store release: st.release.<scope>;
rmw release: fence.release.<scope>; atom.relaxed.<scope>.<rmw op>;
rmw release: atom.release.<scope>.<rmw op>;
fence acquire: fence.acquire.<scope>;
load acquire: ld.relaxed.<scope>; fence.acquire.<scope>;
load acquire: ld.acquire.<scope>;
rmw acquire: atom.relaxed.<scope>.<rmw op>; fence.acquire.<scope>;
rmw acquire: atom.acquire.<scope>.<rmw op>;
fence acq_rel: fence.acq_rel.<scope>;
rmw acq_rel: atom.acq_rel.<scope>.<rmw op>;
rmw acq_rel: fence.release.<scope>; atom.acquire.<scope>.<rmw op>;
load relaxed: ld.relaxed.<scope>;
store relaxed: st.relaxed.<scope>;
rmw relaxed: atom.relaxed.<scope>.<rmw op>;";

    #[test]
    fn the_rows_are_the_guides() {
        let words = |row: &Mapping| {
            let operation = match row.operation {
                Operation::Fence => "fence",
                Operation::Load => "load",
                Operation::Store => "store",
                Operation::ReadModifyWrite => "rmw",
            };
            let order = match row.order {
                Order::SeqCst => "seq_cst",
                Order::Release => "release",
                Order::Acquire => "acquire",
                Order::AcqRel => "acq_rel",
                Order::Relaxed => "relaxed",
            };
            format!("{operation} {order}: {}", row.instructions.join(" "))
        };
        assert_eq!(MAPPINGS.iter().map(words).collect::<Vec<_>>().join("\n"), GUIDE);
    }

    #[test]
    fn placeholders_are_filled() {
        for row in &MAPPINGS {
            for scope in Scope::ALL {
                let text = row.instructions(scope, "add").join("");
                assert!(!text.contains('<') && text.contains(scope.name()), "{text}");
                assert_eq!(text.contains(".add"), row.operation == Operation::ReadModifyWrite);
            }
        }
        assert_eq!(mappings(Operation::ReadModifyWrite, Order::AcqRel).count(), 2);
        assert_eq!(mappings(Operation::Store, Order::Acquire).count(), 0);
    }
}
