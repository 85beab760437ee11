//! The links of one program for several targets, at once.
//!
//! In: the options of each link, the inputs. Out: for each link its lines, and what was made of its
//! image. Guaranteed: inputs are opened and taken apart once; all links share the threads of one
//! session; as many links run at once as there are threads, but large ones one by one; the number
//! of threads changes nothing else.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use culd_link::{Dialect, Session};

use crate::index;
use crate::input::{InputItem, SharedInputs, Sources, Store};
use crate::job::{self, PreparedLink, PreparedOptions, StagedLink};
use crate::messages::{LineList, RunOutcome};
use crate::options::{CommandOptions, OptionId, Target};
use crate::registration::ModuleListing;

/// The most bytes of unpacked inputs of the links that run at once. A link takes three times as
/// much memory.
const AT_ONCE: u64 = 32 << 20;

/// The work for a byte of an input, in bytes as for [`Session::map`]: a link does far more with it
/// than to copy it.
const WORK: usize = 4;

/// A link for one target.
pub(super) struct TargetLink {
    pub(super) options: CommandOptions,
    pub(super) target: Target,
    /// The release that is followed; that of the newest input, if it is not known.
    pub(super) dialect: Option<&'static Dialect>,
}

/// The result of one link.
pub(super) struct TargetResult<T> {
    pub(super) outcome: RunOutcome,
    /// The value made from the image; `None` after an error, and if nothing is linked.
    pub(super) made: Option<T>,
    /// The modules of the program; `None` after an error.
    pub(super) listing: Option<ModuleListing>,
}

/// Runs all `links` of the same inputs. `make` turns an image into the value that is kept.
pub(super) fn all<T: Send>(
    links: &[TargetLink],
    items: &[InputItem<'_>],
    shared: &SharedInputs<'_>,
    session: &Session,
    make: impl Fn(usize, Vec<u8>) -> Result<T, String> + Sync,
) -> Vec<TargetResult<T>> {
    let linked = |number: usize| one(&links[number], items, shared, session);
    let kept = |number: usize, linked: Linked| linked.kept(|image| make(number, image));
    if links.len() == 1 {
        return vec![kept(0, linked(0))];
    }
    let each = shared.largest_link().max(1);
    let lanes = usize::try_from(AT_ONCE / each).unwrap_or(usize::MAX);
    let lanes = lanes.min(links.len()).min(session.most_lanes());
    let work = usize::try_from(each).unwrap_or(usize::MAX).saturating_mul(WORK * links.len());
    if lanes < 2 {
        // Large links run one after the other, each with all threads. An image is packed while the
        // next link runs.
        return session.pipeline(links.len(), work, linked, kept);
    }
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<TargetResult<T>>>> =
        links.iter().map(|_| Mutex::new(None)).collect();
    session.lanes(lanes, work, || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = done.get(number) else { return };
            let made = kept(number, linked(number));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        }
    });
    let made = done.into_iter();
    made.filter_map(|made| made.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// A link that has ended.
struct Linked {
    lines: LineList,
    /// `None` after an error, and where nothing is linked.
    image: Option<Vec<u8>>,
    /// `None` after an error.
    listing: Option<ModuleListing>,
}

impl Linked {
    fn kept<T>(self, make: impl Fn(Vec<u8>) -> Result<T, String>) -> TargetResult<T> {
        let Linked { mut lines, image, listing } = self;
        let mut made = None;
        match image.map(make).transpose() {
            Ok(kept) => made = kept,
            Err(error) => lines.push(super::packing_failed(&error)),
        }
        TargetResult { outcome: lines.end(), made, listing }
    }
}

/// Makes one link.
fn one(
    link: &TargetLink,
    items: &[InputItem<'_>],
    shared: &SharedInputs<'_>,
    session: &Session,
) -> Linked {
    let TargetLink { options, target, dialect } = link;
    let mut lines = LineList::new(options, &target.name());
    let index = match index::read(options) {
        Ok(index) => index,
        Err(line) => {
            lines.push(line);
            return Linked { lines, image: None, listing: None };
        }
    };
    let store = Store::copying();
    let job = PreparedOptions { options, target: *target, index, dialect: *dialect, session };
    let sources = Sources { items, store: &store, shared: Some(shared), ahead: None };
    let StagedLink { gathered, link_options, ready } = job.stage(sources, &mut lines);
    if !ready {
        return Linked { lines, image: None, listing: None };
    }
    let mut image = None;
    let system = if let Target::Virtual(_) = target {
        // Nothing says that the runtime's linker will not need it.
        gathered.registration.system_library(|| true)
    } else if let Some(finished) = &gathered.finished {
        image = Some(finished.clone());
        job::unlinked_system(options, &gathered)
    } else {
        let inputs = gathered.link_inputs();
        let PreparedLink { image: prepared, system, .. } =
            job::prepare(options, session, &gathered, &inputs, &link_options, &mut lines);
        image = prepared.map(|image| image.to_vec(session));
        if let (Some(bytes), true) = (&image, options.flag(OptionId::Verify))
            && let Err(line) = job::verified(bytes)
        {
            lines.push(line);
        }
        system
    };
    if lines.failed() {
        return Linked { lines, image: None, listing: None };
    }
    let listing = Some(gathered.registration.listing(system, gathered.whole));
    Linked { lines, image, listing }
}
