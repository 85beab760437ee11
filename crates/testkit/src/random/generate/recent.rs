//! Parts that only the families `recent` and `compiler` have: instructions of newer architectures,
//! more directives of kernels, options of ptxas.
//!
//! In: a random number generator and the target. Out: text of PTX and of command lines.

use super::model::{PtxArch, SpecialInstruction};
use super::rng::Rng;

/// The text of a [`SpecialInstruction`] of [`SpecialInstruction::RECENT`].
pub(super) fn text(special: SpecialInstruction) -> Option<&'static str> {
    Some(match special {
        SpecialInstruction::BarrierPart => "bar.sync 3, 64; bar.arrive 4, 64;",
        SpecialInstruction::Kinds => {
            ".reg .pred %p; .reg .b64 %a; cvt.u64.u32 %a, %acc; istypep.texref %p, %a; @%p add.u32 %acc, %acc, 1;
isspacep.shared %p, %a; @%p add.u32 %acc, %acc, 1; isspacep.const %p, %a; @%p add.u32 %acc, %acc, 1;
isspacep.global %p, %a; @%p add.u32 %acc, %acc, 1; isspacep.local %p, %a; @%p add.u32 %acc, %acc, 1;"
        }
        SpecialInstruction::AtomicHalf => {
            ".reg .b64 %a; .shared .b16 half; .reg .b16 %h; cvt.u16.u32 %h, %acc; cvt.u64.u32 %a, %acc;
atom.add.noftz.f16 %h, [%a], %h; atom.shared.add.noftz.f16 %h, [half], %h; cvt.u32.u16 %acc, %h;"
        }
        SpecialInstruction::System => {
            ".reg .b64 %a; cvt.u64.u32 %a, %acc; atom.sys.global.add.u32 %acc, [%a], 1; membar.sys; fence.sc.sys; nanosleep.u32 %acc;"
        }
        SpecialInstruction::Stack => ".reg .b64 %s; stacksave.u64 %s; stackrestore.u64 %s;",
        SpecialInstruction::Launch => {
            ".reg .b32 %v; .reg .b64 %w; mov.b32 %v, %envreg3; add.u32 %acc, %acc, %v; mov.u32 %v, %total_smem_size; add.u32 %acc, %acc, %v;
mov.u32 %v, %dynamic_smem_size; add.u32 %acc, %acc, %v; mov.u64 %w, %gridid; cvt.u32.u64 %v, %w; add.u32 %acc, %acc, %v;
mov.u64 %w, %current_graph_exec; cvt.u32.u64 %v, %w; add.u32 %acc, %acc, %v;"
        }
        SpecialInstruction::AsyncCopy => {
            ".reg .b64 %a; .shared .align 16 .b8 b[64]; cvt.u64.u32 %a, %acc; cp.async.ca.shared.global [b], [%a], 16; cp.async.wait_all;
redux.sync.add.u32 %acc, %acc, 0xffffffff;"
        }
        SpecialInstruction::Elect => {
            ".reg .pred %p; .reg .b32 %v; .shared .align 4 .b32 word; elect.sync %v|%p, 0xffffffff; @%p add.u32 %acc, %acc, %v;
mov.u32 %v, word; mapa.shared::cluster.u32 %v, %v, 1; st.shared::cluster.u32 [%v], %acc;"
        }
        SpecialInstruction::TryWait => {
            ".reg .pred %p; .shared .align 8 .b64 m; mbarrier.try_wait.parity.shared::cta.b64 %p, [m], %acc; @%p add.u32 %acc, %acc, 1;"
        }
        SpecialInstruction::TensorCopy => {
            ".reg .b64 %a; .shared .align 128 .b8 b[256]; .shared .align 8 .b64 m; cvt.u64.u32 %a, %acc;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [b], [%a, {%acc}], [m];"
        }
        SpecialInstruction::ClusterAligned => {
            ".reg .b32 %v; mov.u32 %v, %nclusterid.x; add.u32 %acc, %acc, %v; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
        }
        SpecialInstruction::LaunchControl => {
            ".shared .align 16 .b8 b[16]; .shared .align 8 .b64 m;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [b], [m];"
        }
        SpecialInstruction::Tensor => {
            ".reg .b32 %t; .shared .align 8 .b32 tm; mov.u32 %t, tm; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%t], 32;
ld.shared.u32 %t, [tm]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 32; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
        }
        SpecialInstruction::TensorPair => {
            ".reg .b32 %t; .shared .align 8 .b32 tm; mov.u32 %t, tm; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%t], 32;
ld.shared.u32 %t, [tm]; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %t, 32;"
        }
        SpecialInstruction::TensorLoad => {
            ".reg .b32 %t; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%t}, [%acc]; tcgen05.wait::ld.sync.aligned; add.u32 %acc, %acc, %t;"
        }
        SpecialInstruction::ReleaseRegisters => "setmaxnreg.dec.sync.aligned.u32 56;",
        _ => return None,
    })
}

/// One of [`SpecialInstruction::RECENT`] that `target` has.
pub(super) fn special(target: PtxArch, rng: &mut Rng) -> Option<SpecialInstruction> {
    let number = target.number();
    let accelerated = 10 * number + u32::from(target.0.ends_with(['a', 'f']));
    let has = |since: &[u32]| {
        let one = |&since: &u32| if since > 900 { since == accelerated } else { since <= number };
        since.is_empty() || since.iter().any(one)
    };
    let possible: Vec<SpecialInstruction> = SpecialInstruction::RECENT
        .iter()
        .filter(|(_, since)| has(since))
        .map(|(special, _)| *special)
        .collect();
    rng.choose(&possible).copied()
}

/// More performance directives of a kernel; `clusters` adds those about clusters of blocks.
pub(super) fn kernel_directives(clusters: bool, rng: &mut Rng) -> Vec<String> {
    let directives: &[&str] = &[
        ".maxntid 64 .minnctapersm 2 .maxnreg 128",
        ".reqntid 32, 4, 2",
        ".reqntid 128 .minnctapersm 1",
        ".reqntid 64 .reqnctapercluster 2, 2, 1",
        ".reqntid 32 .reqnctapercluster 2, 2, 1 .blocksareclusters",
        ".explicitcluster .maxclusterrank 8",
        ".maxntid 128 .explicitcluster .reqnctapercluster 4",
    ];
    let count = if clusters { directives.len() } else { 3 };
    vec![directives[rng.below(count)].to_owned()]
}

/// An option of ptxas that changes more than instructions: ptxas's own functions, attributes,
/// sections.
pub(super) fn compiler_option(plain: bool, rng: &mut Rng) -> Option<String> {
    // Fast compilation and splitting exclude -O and -g, and some of them -lineinfo.
    let free = ["-Ofc=min", "-Ofc=mid", "-Ofc=max", "-split-compile=2"];
    let any = [
        "-sanitize=memcheck",
        "-sanitize=threadsteer",
        "-pic=true",
        "-annotate",
        "-g-tmem-access-check",
        "-make-errors-visible-at-exit",
        "-device-stack-protector=true",
        "-preserve-relocs",
        "-ewp",
        "-func-maxrregcount=64",
        "-maxntid=256",
        "-disable-optimizer-consts",
        "-suppress-debug-info",
        "-sp-bounds-check",
    ];
    let at = rng.below(free.len() + any.len());
    match at.checked_sub(free.len()) {
        Some(at) => Some(any[at].to_owned()),
        None => plain.then(|| free[at].to_owned()),
    }
}
