//! The links of one program for several targets, at once.
//!
//! In: the options of each link, the inputs. Out: for each link its lines, and the value made of
//! its image. Guaranteed: inputs are opened and taken apart once. One link runs on each thread, but
//! only two for large programs; the number of threads changes nothing else.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use culd_link::{Dialect, Session};

use crate::input::{InputItem, SharedInputs, Sources, Store};
use crate::job::{self, PreparedLink, PreparedOptions, StagedLink};
use crate::messages::{LineList, RunOutcome};
use crate::options::{CommandOptions, OptionId, Target};
use crate::os::heap;
use crate::registration::ModuleListing;
use crate::{index, threads};

/// If the inputs have this many bytes or more, at most two links run at once: each holds its
/// unpacked inputs.
const LARGE: u64 = 64 << 20;

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
    make: impl Fn(usize, Vec<u8>) -> Result<T, String> + Sync,
) -> Vec<TargetResult<T>> {
    let Some(first) = links.first() else { return Vec::new() };
    let (threads, _) = threads::threads(&first.options);
    let threads = if threads == 0 { threads::cores() } else { threads };
    let most = if shared.size() >= LARGE { 2 } else { usize::MAX };
    let lanes = threads.min(links.len()).min(most).max(1);
    let each = (threads / lanes).max(1);
    if lanes == 1 {
        return links
            .iter()
            .enumerate()
            .map(|(number, link)| {
                let session = Session::with_threads(threads).growing_heaps(heap::grow);
                one(link, items, shared, &session, &|image| make(number, image))
            })
            .collect();
    }
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<TargetResult<T>>>> =
        links.iter().map(|_| Mutex::new(None)).collect();
    let lane = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(link) = links.get(number) else { return };
            let session = Session::with_threads(each);
            let made = one(link, items, shared, &session, &|image| make(number, image));
            *done[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        }
    };
    thread::scope(|scope| {
        // If the system gives no threads, this one does all the work.
        for _ in 1..lanes {
            let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, lane);
        }
        lane();
    });
    let made = done.into_iter();
    made.filter_map(|made| made.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// The stack of a thread that links, in bytes: the size of a main thread's.
const STACK: usize = 8 << 20;

/// Makes one link.
fn one<T>(
    link: &TargetLink,
    items: &[InputItem<'_>],
    shared: &SharedInputs<'_>,
    session: &Session,
    make: &dyn Fn(Vec<u8>) -> Result<T, String>,
) -> TargetResult<T> {
    let TargetLink { options, target, dialect } = link;
    let mut lines = LineList::new(options, &target.name());
    let mut done = TargetResult { outcome: RunOutcome::success(), made: None, listing: None };
    let index = match index::read(options) {
        Ok(index) => index,
        Err(line) => {
            lines.push(line);
            return TargetResult { outcome: lines.end(), ..done };
        }
    };
    let store = Store::copying();
    let job = PreparedOptions { options, target: *target, index, dialect: *dialect, session };
    let sources = Sources { items, store: &store, shared: Some(shared) };
    let StagedLink { gathered, link_options, ready } = job.stage(sources, &mut lines);
    if !ready {
        return TargetResult { outcome: lines.end(), ..done };
    }
    let mut image = None;
    let system = if let Target::Virtual(_) = target {
        // Nothing says that the runtime's linker will not need it.
        gathered.registration.system_library(|| true)
    } else if let Some(finished) = &gathered.finished {
        image = Some(finished.clone());
        gathered.registration.system_library(|| false)
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
    if !lines.failed() {
        done.listing = Some(gathered.registration.listing(system, gathered.whole));
        // The inputs of the link are not needed any more.
        drop((gathered, link_options));
        drop(store);
        match image.map(make).transpose() {
            Ok(made) => done.made = made,
            Err(error) => lines.push(super::packing_failed(&error)),
        }
    }
    TargetResult { outcome: lines.end(), ..done }
}
