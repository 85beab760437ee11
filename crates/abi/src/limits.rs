//! What a multiprocessor of each compute capability has, and how many blocks of a kernel fit.
//!
//! In: what a block of a kernel needs. Out: [`Occupancy`]: how many blocks and warps are resident
//! at once, and what keeps there from being more. Guaranteed: integers only; the same for
//! everybody.
//!
//! The numbers are those of the *CUDA C++ Programming Guide* 13.0, table "Technical Specifications
//! per Compute Capability". The guide has no column for 6.0, 6.1, 7.0, 8.8, 10.3 and 12.1: theirs
//! are those that NVIDIA's CCCL publishes (`cuda/__device/arch_traits.h`), which has the guide's
//! numbers for all others. For 10.7 nobody has published any; 5.x, 6.2 and 7.2 are not here.
//!
//! The formula is that of the guide's older editions (4.2, "Hardware Multithreading") and of the
//! occupancy calculator: registers are given to whole warps, 256 at a time, and the warps of a
//! block are spread over four quarters of the multiprocessor, of 6.0 over two halves; shared memory
//! comes in units. The guide does not say how many barriers a multiprocessor has: those numbers,
//! like the units, are what `cuda_occupancy.h` of CUDA 13.0 was seen to count with. `cargo xtask
//! occupancy` holds table and formula against that header.

/// Threads of a warp.
pub const WARP: u32 = 32;

/// Registers that a warp is given at a time.
const REGISTER_UNIT: u32 = 256;

/// Warps of a block that are given registers at a time, for the limit of one block.
const WARPS_AT_ONCE: u32 = 4;

/// What a multiprocessor of one compute capability has. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of the architecture: 90 for compute capability 9.0.
    pub sm: u32,
    /// Who published the numbers.
    pub source: LimitSource,
    /// Blocks that are resident at once.
    pub blocks: u32,
    /// Warps that are resident at once.
    pub warps: u32,
    /// Registers.
    pub registers: u32,
    /// Registers of one block.
    pub block_registers: u32,
    /// Registers of one thread.
    pub thread_registers: u32,
    /// Threads of one block.
    pub block_threads: u32,
    /// Shared memory.
    pub shared: u32,
    /// Shared memory of one block, if the program asks the driver for more than it gives by itself.
    pub block_shared: u32,
    /// Shared memory that the system takes for each block besides the block's own.
    pub reserved_shared: u32,
    /// A block's shared memory is a multiple of this.
    pub shared_unit: u32,
    /// Barriers of all resident blocks; `None` where they are no limit. Observed.
    pub barriers: Option<u32>,
}

/// Who published the numbers of a compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The CUDA C++ Programming Guide.
    Guide,
    /// CCCL.
    Cccl,
}

impl LimitSource {
    /// The name of the document.
    pub fn name(self) -> &'static str {
        match self {
            LimitSource::Guide => {
                "CUDA C++ Programming Guide 13.0, Technical Specifications per Compute Capability"
            }
            LimitSource::Cccl => "CCCL, cuda/__device/arch_traits.h",
        }
    }
}

/// Bytes of a KB, as the guide counts.
const KB: u32 = 1024;

const fn row(sm: u32, source: LimitSource, blocks: u32, warps: u32, shared_kb: u32) -> Limits {
    let reserved = if sm >= 80 { KB } else { 0 };
    Limits {
        sm,
        source,
        blocks,
        warps,
        registers: 64 * KB,
        block_registers: 64 * KB,
        thread_registers: 255,
        block_threads: 1024,
        shared: shared_kb * KB,
        // Before 7.0 a program cannot ask for more.
        block_shared: if sm < 70 { 48 * KB } else { shared_kb * KB - reserved },
        reserved_shared: reserved,
        shared_unit: if sm >= 80 { 128 } else { 256 },
        barriers: match sm {
            90..=103 => Some(64),
            110.. => Some(24),
            _ => None,
        },
    }
}

/// The compute capabilities with published numbers, ascending.
#[rustfmt::skip]
pub const LIMITS: &[Limits] = &[
    //  SM   published by   blocks  warps  KB of shared memory
    row(60,  LimitSource::Cccl,  32,     64,    64),
    row(61,  LimitSource::Cccl,  32,     64,    96),
    row(70,  LimitSource::Cccl,  32,     64,    96),
    row(75,  LimitSource::Guide, 16,     32,    64),
    row(80,  LimitSource::Guide, 32,     64,    164),
    row(86,  LimitSource::Guide, 16,     48,    100),
    row(87,  LimitSource::Guide, 16,     48,    164),
    row(88,  LimitSource::Cccl,  16,     48,    100),
    row(89,  LimitSource::Guide, 24,     48,    100),
    row(90,  LimitSource::Guide, 32,     64,    228),
    row(100, LimitSource::Guide, 32,     64,    228),
    row(103, LimitSource::Cccl,  32,     64,    228),
    row(110, LimitSource::Guide, 24,     48,    228),
    row(120, LimitSource::Guide, 24,     48,    100),
    row(121, LimitSource::Cccl,  24,     48,    100),
];

/// What one block of a kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockNeeds {
    /// Threads.
    pub threads: u32,
    /// Registers of each thread.
    pub registers: u32,
    /// Shared memory in bytes, without the system's part.
    pub shared: u32,
    /// Barriers.
    pub barriers: u32,
}

/// What keeps more blocks from being resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The number of warps.
    Warps,
    /// The number of blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// Barriers.
    Barriers,
}

impl Limit {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Warps => "warps",
            Limit::Blocks => "blocks",
            Limit::Registers => "registers",
            Limit::Shared => "shared",
            Limit::Barriers => "barriers",
        }
    }
}

/// How much of a multiprocessor a kernel can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks that are resident at once; 0 if not even one fits.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// What keeps there from being more: of several the first in the order of [`Limit`].
    pub limit: Limit,
    /// How many blocks each limit alone would allow, in the order of [`Limit`].
    pub each: [u32; 5],
}

impl Limits {
    /// The limits of architecture number `sm`; `None` if nobody has published them.
    pub fn of(sm: u32) -> Option<&'static Limits> {
        LIMITS.iter().find(|row| row.sm == sm)
    }

    /// How many blocks of this kind are resident at once.
    ///
    /// ```
    /// use culd_abi::limits::{BlockNeeds, Limit, Limits};
    /// let limits = Limits::of(90).unwrap();
    /// let needs = BlockNeeds { threads: 256, registers: 168, shared: 0, barriers: 1 };
    /// let occupancy = limits.occupancy(needs);
    /// assert_eq!((occupancy.blocks, occupancy.warps), (1, 8));
    /// assert_eq!(occupancy.limit, Limit::Registers);
    /// ```
    pub fn occupancy(&self, needs: BlockNeeds) -> Occupancy {
        let warps = needs.threads.div_ceil(WARP).max(1);
        let by_warps = if needs.threads > self.block_threads { 0 } else { self.warps / warps };
        let by_barriers = self.barriers.and_then(|all| all.checked_div(needs.barriers));
        let each = [
            by_warps,
            self.blocks,
            self.by_registers(warps, needs),
            self.by_shared(needs),
            by_barriers.unwrap_or(self.blocks),
        ];
        let limits =
            [Limit::Warps, Limit::Blocks, Limit::Registers, Limit::Shared, Limit::Barriers];
        let blocks = each.into_iter().min().unwrap_or(0);
        let first = each.iter().position(|&count| count == blocks).unwrap_or(0);
        let limit = limits.get(first).copied().unwrap_or(Limit::Warps);
        Occupancy { blocks, warps: blocks * warps, limit, each }
    }

    fn by_registers(&self, warps: u32, needs: BlockNeeds) -> u32 {
        if needs.registers > self.thread_registers {
            return 0;
        }
        // Code without registers is given some, too.
        let warp = (needs.registers.max(1) * WARP).next_multiple_of(REGISTER_UNIT);
        if warp * warps.next_multiple_of(WARPS_AT_ONCE) > self.block_registers {
            return 0;
        }
        let parts = self.parts();
        self.registers / parts / warp * parts / warps
    }

    /// Parts of a multiprocessor, each with an equal share of its registers. A warp is in one of
    /// them.
    fn parts(&self) -> u32 {
        if self.sm == 60 { 2 } else { 4 }
    }

    fn by_shared(&self, needs: BlockNeeds) -> u32 {
        if needs.shared > self.block_shared {
            return 0;
        }
        let whole = needs.shared + self.reserved_shared;
        self.shared.checked_div(whole.next_multiple_of(self.shared_unit)).unwrap_or(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the guide's table that differ by compute capability, cells that span columns
    /// written out.
    #[rustfmt::skip]
    const GUIDE: [(&str, [u32; 9]); 5] = [
        // 7.5   8.0   8.6   8.7   8.9   9.0  10.0  11.0  12.0
        ("Maximum number of resident blocks per SM",
          [16,   32,   16,   16,   24,   32,   32,   24,   24]),
        ("Maximum number of resident warps per SM",
          [32,   64,   48,   48,   48,   64,   64,   48,   48]),
        ("Maximum number of resident threads per SM",
          [1024, 2048, 1536, 1536, 1536, 2048, 2048, 1536, 1536]),
        ("Maximum amount of shared memory per SM, KB",
          [64,   164,  100,  164,  100,  228,  228,  228,  100]),
        ("Maximum amount of shared memory per thread block, KB",
          [64,   163,  99,   163,  99,   227,  227,  227,  99]),
    ];

    #[test]
    fn the_table_is_that_of_the_guide() {
        let of_guide = LIMITS.iter().filter(|row| row.source == LimitSource::Guide);
        let rows: Vec<&Limits> = of_guide.collect();
        assert_eq!(
            rows.iter().map(|row| row.sm).collect::<Vec<_>>(),
            [75, 80, 86, 87, 89, 90, 100, 110, 120]
        );
        for (at, limits) in rows.into_iter().enumerate() {
            let own = [
                limits.blocks,
                limits.warps,
                limits.warps * WARP,
                limits.shared / KB,
                limits.block_shared / KB,
            ];
            for ((what, numbers), own) in GUIDE.iter().zip(own) {
                assert_eq!(own, numbers[at], "{what}, sm_{}", limits.sm);
            }
        }
    }

    #[test]
    fn rows_ascend_and_one_target_is_unknown() {
        assert!(LIMITS.windows(2).all(|pair| pair[0].sm < pair[1].sm));
        assert!(Limits::of(107).is_none() && Limits::of(10).is_none());
    }

    #[test]
    fn each_limit_can_be_the_smallest() {
        let limits = Limits::of(90).unwrap();
        let of = |threads, registers, shared| {
            let occupancy =
                limits.occupancy(BlockNeeds { threads, registers, shared, barriers: 1 });
            (occupancy.blocks, occupancy.warps, occupancy.limit)
        };
        assert_eq!(of(1024, 16, 0), (2, 64, Limit::Warps));
        assert_eq!(of(32, 16, 0), (32, 32, Limit::Blocks));
        assert_eq!(of(256, 64, 0), (4, 32, Limit::Registers));
        assert_eq!(of(256, 32, 113 * KB), (2, 16, Limit::Shared));
        // What cannot run at all.
        assert_eq!(of(1025, 16, 0).0, 0);
        assert_eq!(of(1024, 65, 0), (0, 0, Limit::Registers));
        assert_eq!(of(32, 256, 0), (0, 0, Limit::Registers));
        assert_eq!(of(32, 16, 228 * KB), (0, 0, Limit::Shared));
        // The system's part counts: without it, 57 KB would fit four times.
        assert_eq!(of(32, 16, 57 * KB), (3, 3, Limit::Shared));
        assert_eq!(of(32, 16, 56 * KB), (4, 4, Limit::Shared));
        let barriers = |sm, barriers| {
            let needs = BlockNeeds { threads: 32, registers: 16, shared: 0, barriers };
            let occupancy = Limits::of(sm).unwrap().occupancy(needs);
            (occupancy.blocks, occupancy.limit)
        };
        assert_eq!(barriers(90, 3), (21, Limit::Barriers));
        assert_eq!(barriers(120, 16), (1, Limit::Barriers));
        assert_eq!(barriers(89, 16), (24, Limit::Blocks));
        assert_eq!(barriers(90, 0), (32, Limit::Blocks));
    }
}
