//! The links that are compared, by what they are about.
//!
//! In: nothing. Out: rows. A difference that docs/DIFFERENCES.md (lto) lists is named by what is
//! left to be equal.

/// A difference that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listed {
    /// Functions stand in another order, because the LTO-IR is one piece: 13.2 and later.
    Order,
    /// Variables stand in another order: 13.0 and 13.1, sm_100 and later.
    Variables,
    /// Shared variables are aligned to 16 bytes.
    Shared,
    /// More is kept, because the name of something used occurs in that of something else.
    Within,
    /// Weak variables of a piece without siblings are local.
    Names,
    /// libcudadevrt is left out where only dead code needs it.
    Library,
    /// nvlink loses LTO-IR that is in no host object: 13.4 and earlier.
    Lost,
    /// nvlink demands libcudadevrt.
    Demanded,
    /// nvlink finds no libnvvm.
    Folder,
    /// The messages of the compiler have other words.
    Words,
}

impl Listed {
    /// The name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Listed::Order => "order",
            Listed::Variables => "variables",
            Listed::Shared => "shared",
            Listed::Within => "within",
            Listed::Names => "names",
            Listed::Library => "library",
            Listed::Lost => "lost",
            Listed::Demanded => "demanded",
            Listed::Folder => "folder",
            Listed::Words => "words",
        }
    }
}

use Listed::{Demanded, Folder, Library, Lost, Names, Order, Shared, Variables, Within, Words};

/// Links of one kind.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) links: &'static [Link],
}

/// Words of a link and what may differ; `\t` separates words that have blanks.
pub(super) type Link = (&'static str, &'static [Listed]);

/// All of them.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "whole",
        links: &[
            ("a.ltoir b.ltoir c.ltoir", &[]),
            ("c.ltoir b.ltoir a.ltoir", &[]),
            ("a.o b.o c.o -lcudadevrt", &[]),
            ("al.o bl.o cl.o -lcudadevrt", &[]),
            ("ae.o be.o ce.o -lcudadevrt", &[]),
            ("a.o b.ltoir c.fatbin -lcudadevrt", &[]),
            ("parts.o more.o -lcudadevrt", &[]),
            ("more.ltoir parts.ltoir", &[]),
            ("calls.o -lcudadevrt", &[]),
            ("pool.o pooled.o -lcudadevrt", &[]),
            ("fast.o slow.o -lcudadevrt", &[]),
            ("-emit-ptx parts.o more.o -lcudadevrt", &[]),
            // Not defined anywhere.
            ("a.ltoir b.ltoir", &[]),
            ("a.o b.o -lcudadevrt", &[]),
            ("lost.o ys.o -lcudadevrt", &[]),
            // Twice.
            ("x.o x.o -lcudadevrt", &[]),
            ("x.ltoir x.ltoir", &[]),
            // nvlink asks for a library that nothing needs.
            ("a.o b.o c.o", &[Demanded]),
            ("x.ltoir y.o", &[Demanded]),
        ],
    },
    Family {
        name: "mixed",
        links: &[
            ("a.o b.o cs.o -lcudadevrt", &[]),
            ("as.o b.o c.o -lcudadevrt", &[]),
            ("a.o bs.o c.o -lcudadevrt", &[]),
            ("a.o b.o c.ptx -lcudadevrt", &[]),
            ("a.o b.ptx c.ptx -lcudadevrt", &[Order]),
            ("as.o b.o c.cubin -lcudadevrt", &[Order]),
            ("ae.o be.o cs.o -lcudadevrt", &[]),
            ("x.o ys.o zs.o -lcudadevrt", &[]),
            ("xs.o y.o zs.o -lcudadevrt", &[]),
            ("xs.o ys.o z.o -lcudadevrt", &[]),
            ("x.o ys.o z.o -lcudadevrt", &[]),
            ("xs.o y.o z.o -lcudadevrt", &[]),
            ("x.o y.cubin z.o -lcudadevrt", &[]),
            ("x.ptx y.o z.o -lcudadevrt", &[]),
            ("x.ptx y.o z.cubin -lcudadevrt", &[]),
            ("x.o ys.o", &[]),
            ("parts.o more.o needss.o -lcudadevrt", &[Variables]),
            ("needss.o parts.o more.o -lcudadevrt", &[Variables]),
            ("parts.o needss.o more.o -lcudadevrt", &[Variables]),
            ("parts.o mores.o needss.o -lcudadevrt", &[Order, Variables]),
            ("partss.o more.o needs.ptx -lcudadevrt", &[Order, Variables]),
            ("pool.o pooleds.o -lcudadevrt", &[Shared, Order]),
            ("calls.o ys.o -lcudadevrt", &[Order]),
            ("-emit-ptx parts.o more.o needss.o -lcudadevrt", &[Variables]),
            ("-v parts.o more.o needss.o -lcudadevrt", &[Variables]),
            // LTO-IR whose names nothing tells.
            ("al.o bl.o cs.o -lcudadevrt", &[]),
            ("partsl.o morel.o needss.o -lcudadevrt", &[Names]),
            // nvlink loses bare LTO-IR.
            ("x.ltoir ys.o", &[Lost]),
            ("parts.ltoir more.ltoir needss.o", &[Lost, Names]),
            ("as.o b.ltoir c.o -lcudadevrt", &[Lost]),
        ],
    },
    Family {
        name: "devrt",
        links: &[
            ("child.o -lcudadevrt", &[Order]),
            ("child.o x.o -lcudadevrt", &[]),
            ("child.o x.o ys.o -lcudadevrt", &[]),
            ("dead.o -lcudadevrt", &[Order]),
            ("dead.o x.o -lcudadevrt", &[]),
            ("childl.o xl.o -lcudadevrt", &[]),
            ("deadl.o xl.o -lcudadevrt", &[Library]),
            ("-keep-system-libraries a.o b.o c.o -lcudadevrt", &[]),
            ("-keep-system-libraries x.o ys.o -lcudadevrt", &[]),
            ("-emit-ptx child.o x.o -lcudadevrt", &[]),
        ],
    },
    Family {
        name: "objects",
        links: &[
            ("-r a.o b.o c.o -lcudadevrt", &[]),
            ("-r parts.o more.o -lcudadevrt", &[Variables]),
            ("-r a.o b.o cs.o -lcudadevrt", &[]),
            ("-r x.o y.o -lcudadevrt", &[]),
            ("-r a.o -lcudadevrt", &[]),
            ("-r b.o -lcudadevrt", &[]),
            ("-r c.o -lcudadevrt", &[Order]),
            ("-r al.o bl.o cl.o -lcudadevrt", &[]),
            ("-r a.ltoir b.ltoir c.ltoir", &[Lost]),
            ("-preserve-relocs a.o b.o c.o -lcudadevrt", &[]),
        ],
    },
    Family {
        name: "host",
        links: &[
            ("host.o -lcudadevrt", &[]),
            ("host.o x.o -lcudadevrt", &[]),
            ("-ignore-host-info host.o -lcudadevrt", &[]),
            ("-use-host-info host.o -lcudadevrt", &[]),
            ("-g host.o -lcudadevrt", &[Words]),
            ("host.ltoir", &[]),
            ("host.fatbin", &[]),
            ("host.o x.fatbin -lcudadevrt", &[]),
            ("host.o x.fatbin ys.o -lcudadevrt", &[Lost]),
            ("host.o x.ltoir -lcudadevrt", &[]),
            ("host.o guest.o -lcudadevrt", &[]),
            ("within.o -lcudadevrt", &[Within]),
            ("-kernels-used=launched host.o -lcudadevrt", &[]),
            ("-kernels-used=launched,made host.o -lcudadevrt", &[]),
            ("-kernels-used=launched -variables-used=fixed host.o -lcudadevrt", &[]),
            ("-variables-used=second host.o -lcudadevrt", &[]),
            ("-variables-used=nosuch host.o -lcudadevrt", &[]),
            ("-kernels-used=nosuch host.o -lcudadevrt", &[]),
            ("-kernels-used= host.o -lcudadevrt", &[]),
            ("-kernels-used=l*d host.ltoir", &[]),
            // Beside other code.
            ("host.o guests.o -lcudadevrt", &[Order]),
            ("host.o x.o guests.o -lcudadevrt", &[Variables]),
            ("host.o x.o ys.o -lcudadevrt", &[Variables]),
            ("-ignore-host-info host.o x.o guests.o -lcudadevrt", &[Variables]),
            ("-kernels-used=launched host.o x.o guests.o -lcudadevrt", &[Variables]),
            ("-variables-used=second host.o x.o guests.o -lcudadevrt", &[Variables]),
        ],
    },
    Family {
        name: "options",
        links: &[
            ("-Ofc=min parts.o more.o -lcudadevrt", &[]),
            ("-Ofc=mid parts.o more.o -lcudadevrt", &[]),
            ("-Ofc=0 parts.o more.o -lcudadevrt", &[]),
            ("-Ofc=mid a.o b.o c.ptx -lcudadevrt", &[]),
            ("-split-compile 4 a.o b.o c.o -lcudadevrt", &[]),
            ("-split-compile 1 a.o b.o c.o -lcudadevrt", &[]),
            ("-split-compile 0 a.o b.o c.ptx -lcudadevrt", &[]),
            ("-split-compile-extended 2 a.o b.o c.o -lcudadevrt", &[]),
            ("-split-compile-extended 0 a.o b.o c.ptx -lcudadevrt", &[]),
            ("-device-stack-protector true parts.o more.o -lcudadevrt", &[]),
            ("-device-stack-protector false a.o b.o c.ptx -lcudadevrt", &[]),
            ("-device-stack-protector true a.o b.o c.ptx -lcudadevrt", &[]),
            ("-maxrregcount=24 parts.o more.o -lcudadevrt", &[]),
            ("-maxrregcount=24 a.o b.o c.ptx -lcudadevrt", &[]),
            ("-maxrregcount=-1 parts.o more.o -lcudadevrt", &[]),
            ("-maxrregcount=0 parts.o more.o -lcudadevrt", &[]),
            ("-maxrregcount=300 a.o b.o c.o -lcudadevrt", &[]),
            ("-g x.o y.o -lcudadevrt", &[]),
            ("-g -suppress-debug-info a.o b.o c.ptx -lcudadevrt", &[]),
            ("-w a.o b.o cs.o -lcudadevrt", &[]),
            ("-Werror a.o b.o cs.o -lcudadevrt", &[]),
            ("-disable-infos a.o b.o cs.o -lcudadevrt", &[]),
            ("-report-arch a.o b.o cs.o -lcudadevrt", &[]),
            ("-cpu-arch=X86_64 a.o b.o cs.o -lcudadevrt", &[]),
            ("-suppress-stack-size-warning calls.o xs.o -lcudadevrt", &[Order]),
            ("-nvvmpath=/nonexistent a.ltoir", &[]),
            ("-nvvmpath=/nonexistent cs.o", &[Folder]),
            ("-nvvmpath=/ x.ltoir", &[Folder]),
            ("-emit-ptx as.o -lcudadevrt", &[]),
            ("as.o bs.o cs.o -lcudadevrt", &[]),
        ],
    },
    Family {
        name: "words",
        links: &[
            ("-Xptxas\t-O2 -O1 \ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t-warn-spills -O1\ta.o\tb.o\tc.ptx\t-lcudadevrt", &[]),
            ("-Xptxas\t -O1  -warn-spills\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas -warn-spills,-O1 a.o b.o c.o -lcudadevrt", &[]),
            ("-Xptxas -O1 -Xptxas -warn-spills a.o b.o c.o -lcudadevrt", &[]),
            ("-Xptxas\t\"-O1 -warn-spills\"\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t\"-O1,-warn-spills\"\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t'-O1'\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t \ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas\t-maxrregcount 24\ta.o\tb.o\tc.o\t-lcudadevrt", &[]),
            ("-Xptxas -bogus a.o b.o c.o -lcudadevrt", &[]),
            ("-Xptxas -bogus a.ptx", &[]),
            ("-Xptxas\t-O1 -warn-spills\ta.ptx\tb.ptx\tc.ptx", &[]),
            ("-Xptxas\t-O1 \\-x\ta.ptx\tb.ptx\tc.ptx", &[]),
            ("-Xnvvm\t-ftz=1 -prec-div=0\tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm -ftz=1,-prec-div=0 fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm -ftz=1 -Xnvvm -prec-div=0 fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm\t\"-ftz=1 -prec-div=0\"\tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm\t  -ftz=1   -prec-div=0  \tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm\t\tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm\t \tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm \\-ftz=1 fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm -ftz=1 fast.o slow.ptx -lcudadevrt", &[]),
            ("-Xnvvm -opt=0 fast.o slow.o -lcudadevrt", &[]),
            // The compiler refuses them.
            ("-Xnvvm\t\"-ftz=1,-prec-div=0\"\tfast.o\tslow.o\t-lcudadevrt", &[]),
            ("-Xnvvm '-ftz=1' fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm -bogus fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm word fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm -ftz=1 -Xnvvm -ftz=1 fast.o slow.o -lcudadevrt", &[]),
            ("-Xnvvm -arch=compute_80 fast.o slow.o -lcudadevrt", &[]),
            ("-kernels-used\tlaunched \thost.o\t-lcudadevrt", &[]),
            ("-kernels-used\t launched\thost.o\t-lcudadevrt", &[]),
            ("-kernels-used\tlaunched , nosuch\thost.o\t-lcudadevrt", &[]),
            ("-kernels-used\tlaunched nosuch\thost.o\t-lcudadevrt", &[]),
            ("-kernels-used \"launched\" host.o -lcudadevrt", &[]),
            ("-kernels-used\t\" launched \"\thosts.o\t-lcudadevrt", &[]),
            ("-kernels-used 'launched' host.o -lcudadevrt", &[]),
            ("-variables-used\tsecond \thost.o\t-lcudadevrt", &[]),
            ("-variables-used\tsecond , nosuch\thost.o\t-lcudadevrt", &[]),
            ("-l\tcudadevrt \ta.o\tb.o\tc.o", &[]),
        ],
    },
    Family {
        name: "register",
        links: &[
            ("--register-link-binaries=reg x.o y.o z.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg x.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg xs.o ys.o zs.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg x.o ys.o z.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg xs.o y.o z.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg x.o y.ltoir z.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg x.ltoir y.ltoir", &[]),
            ("--register-link-binaries=reg x.fatbin y.o -lcudadevrt", &[Words]),
            ("--register-link-binaries=reg child.o x.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg -emit-ptx x.o y.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg -emit-ptx x.o ys.o -lcudadevrt", &[]),
            ("--register-link-binaries=reg -r x.o y.o -lcudadevrt", &[]),
        ],
    },
];
